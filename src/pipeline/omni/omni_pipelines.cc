#include "pipeline/omni/omni_pipelines.hpp"

#include <array>

#include "base/text.hpp"
#include "pipeline/omni/stage_loop.hpp"
#include "pipeline/omni/trace.hpp"

namespace stagewire::pipeline {
namespace omni {
namespace {

using GetModel = const Model& (*)();

template <GetModel model, StageRole role>
Status run_stage(ReplayContext& context) {
  auto stage = Stage::create(model(), role, context.assignment);
  if (!stage.ok()) return stage.error();
  auto loop = StageLoop::create(std::move(*stage), context);
  if (!loop.ok()) return loop.error();
  return (*loop)->run();
}

template <GetModel model>
Status check_options(const std::map<std::string, std::int64_t>& options) {
  const auto sizes = processor_options(options);
  if (!sizes.ok()) return sizes.error();
  const auto windows = chunk::WindowSizes::from(*sizes, model().codec);
  return windows.ok() ? Status() : windows.error();
}

/// Whether a trace of it can be read again.
Status check_recordable(const Traffic& traffic) {
  std::uint64_t size = 0;
  for (std::uint64_t number = 0; number < traffic.request_count(); ++number)
    size += traffic.step_count(number) * longest_trace_line(traffic.external_id(number));
  if (size <= kMaxTraceSize) return {};
  return base::error(ErrorCode::too_large, "--record-trace: the trace would have up to ", size,
                     " bytes, --trace reads at most ", kMaxTraceSize, ": record fewer or shorter requests");
}

template <GetModel model>
Result<RequestPlan> plan_requests(const ReplayOptions& options, bool async_chunk, bool recorded) {
  const auto traffic = Traffic::create(model(), options, async_chunk);
  if (!traffic.ok()) return traffic.error();
  if (Status status = recorded ? check_recordable(*traffic) : Status(); !status.ok()) return status.error();
  RequestPlan plan;
  plan.concurrency = traffic->concurrency();
  for (std::uint64_t number = 0; number < traffic->request_count(); ++number) {
    plan.requests.push_back({traffic->external_id(number),
                             static_cast<double>(traffic->frame_count(number)) / model().frames_per_second,
                             traffic->start_ms(number) / 1e3});
  }
  return plan;
}

template <GetModel model>
const PipelineDefinition& definition() {
  static const std::array kStages{
      StageDefinition{"thinker", nullptr, run_stage<model, StageRole::thinker>},
      StageDefinition{"talker", nullptr, run_stage<model, StageRole::talker>},
      StageDefinition{"code2wav", nullptr, run_stage<model, StageRole::code2wav>}};
  static const PipelineDefinition kDefinition{model().pipeline,     kStages,   nullptr, check_options<model>,
                                              plan_requests<model>, trace_line};
  return kDefinition;
}

std::string full_name(const Model& model) {
  return base::text(model.owner, "/", model.checkpoint);
}

}  // namespace

const PipelineDefinition& qwen3_pipeline() {
  return definition<qwen3_omni_moe>();
}

const PipelineDefinition& qwen25_pipeline() {
  return definition<qwen2_5_omni>();
}

}  // namespace omni
}  // namespace stagewire::pipeline

namespace stagewire {

Result<std::string> pipeline_of_model(std::string_view model) {
  using namespace pipeline;
  while (!model.empty() && model.back() == '/') model.remove_suffix(1);
  const std::string_view name = model.substr(model.rfind('/') + 1);  // npos + 1 is 0
  std::string known;
  for (const omni::Model* one : omni::all_models()) {
    if (name == one->checkpoint) return std::string(one->pipeline);
    known += (known.empty() ? "" : ", ") + omni::full_name(*one);
  }
  return base::error(ErrorCode::invalid_argument, "the model \"", model,
                     "\" is not known; there are: ", known);
}

}  // namespace stagewire
