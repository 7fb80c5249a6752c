#include "pipeline/step_recording.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

constexpr std::size_t kWrittenAtOnce = 64 * 1024;  // bytes, about

}  // namespace

Status StepRecording::note(std::size_t stage, const StepsMade& made) {
  for (const MadeStep& step : made.steps) {
    if (step.request >= request_count_)
      return base::error(ErrorCode::corrupt, "it made a step of request ", step.request, ", there are ",
                         request_count_);
    steps_.push_back({stage, step});
  }
  return {};
}

Status StepRecording::write(const PipelineDefinition& definition, const RequestPlan& plan,
                            const std::vector<RequestOutcome>& outcomes, std::int64_t started_us,
                            OutputFile& file) {
  // At the same time, an earlier stage made its step first. Those of one stage stay in its order.
  std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return std::tie(a.made.at_us, a.stage) < std::tie(b.made.at_us, b.stage);
  });
  std::string lines;
  for (const auto& [stage, made] : steps_) {
    if (outcomes[made.request].failure) continue;
    lines +=
        definition.trace_line({plan.requests[made.request].id, stage,
                               static_cast<double>(made.at_us - started_us) / 1e3, made.count, made.last});
    if (lines.size() < kWrittenAtOnce) continue;
    if (Status status = file.write(lines); !status.ok()) return status;
    lines.clear();
  }
  return file.write(lines);
}

}  // namespace stagewire::pipeline
