#include "pipeline/omni/stage_role.hpp"

#include <limits>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::pipeline::omni {
namespace {

constexpr std::string_view kRoleNames[] = {"thinker", "talker", "code2wav"};

Status take_option(const std::map<std::string, std::int64_t>& options, const char* name, int& value) {
  const auto found = options.find(name);
  if (found == options.end()) return {};
  if (found->second < 0 || found->second > std::numeric_limits<int>::max())
    return base::error(ErrorCode::invalid_argument, name, " is ", found->second);
  value = static_cast<int>(found->second);
  return {};
}

}  // namespace

Result<ChunkProcessorOptions> processor_options(const std::map<std::string, std::int64_t>& options) {
  ChunkProcessorOptions result;
  for (const Status& status :
       {take_option(options, "codec_chunk_frames", result.codec_chunk_frames),
        take_option(options, "codec_left_context_frames", result.codec_left_context_frames),
        take_option(options, "initial_codec_chunk_frames", result.initial_codec_chunk_frames)}) {
    if (!status.ok()) return status.error();
  }
  return result;
}

bool StageRequest::can_step() const {
  if (has_made_all()) return false;
  const std::int64_t needs = steps[next_step].needs;
  return needs == 0 || far_end == nullptr || far_end->finished() || far_end->received() >= needs;
}

Stage::Stage(const Model& model, StageRole role, Traffic traffic, const Assignment& assignment)
    : role_(role),
      traffic_(std::move(traffic)),
      contents_(model, assignment.replay.seed),
      async_chunk_(assignment.async_chunk) {}

Result<Stage> Stage::create(const Model& model, StageRole role, const Assignment& assignment) {
  auto traffic = Traffic::create(model, assignment.replay, assignment.async_chunk);
  if (!traffic.ok()) return traffic.error();
  Stage stage(model, role, std::move(*traffic), assignment);
  const auto options = processor_options(assignment.chunk_options);
  if (!options.ok()) return options.error();
  stage.options_ = *options;
  const auto sizes = chunk::WindowSizes::from(*options, model.codec);
  if (!sizes.ok()) return sizes.error();
  stage.sizes_ = *sizes;
  return stage;
}

Result<std::unique_ptr<ChunkProcessor>> Stage::make_processor() const {
  if (role_ == StageRole::code2wav) return std::unique_ptr<ChunkProcessor>();
  return make_chunk_processor(
      base::text(model().processors, ".", role_ == StageRole::thinker ? "thinker2talker" : "talker2code2wav",
                 async_chunk_ ? "_async_chunk" : "_full_payload"),
      options_);
}

std::string Stage::internal_id(std::uint64_t number) const {
  return base::text(kRoleNames[static_cast<std::size_t>(role_)], "-", number);
}

StageRequest Stage::begin(std::uint64_t number) const {
  RequestSchedule schedule = traffic_.request(number);
  StageRequest request;
  request.number = number;
  request.internal_id = internal_id(number);
  request.external_id = schedule.external_id;
  request.prompt_tokens = schedule.prompt_tokens;
  const ExpectedStream expected{number,
                                schedule.external_id,
                                schedule.prompt_tokens,
                                schedule.row_count(),
                                schedule.frame_count(),
                                async_chunk_ ? chunk::Path::chunks : chunk::Path::full_payload};
  switch (role_) {
    case StageRole::thinker:
      request.steps = std::move(schedule.thinker);
      for (std::int64_t i = 0; i < schedule.prompt_tokens; ++i)
        request.prompt_ids.push_back(contents_.prompt_id(number, i));
      break;
    case StageRole::talker:
      request.steps = std::move(schedule.talker);
      request.far_end = make_thinker_far_end(contents_, expected);
      break;
    case StageRole::code2wav:
      request.far_end = make_talker_far_end(contents_, expected, sizes_);
      break;
  }
  return request;
}

StepOutput Stage::make_step(StageRequest& request) const {
  STAGEWIRE_CHECK(!request.has_made_all(), "a step was asked for after the last one");
  const Step& step = request.steps[request.next_step++];
  const std::int64_t first = request.made;
  request.made += step.count;
  if (role_ == StageRole::thinker) {
    // The ids of the output are those of the rows after the prompt.
    for (std::int64_t row = std::max(first, request.prompt_tokens); row < request.made; ++row)
      request.output_ids.push_back(contents_.output_id(request.number, row - request.prompt_tokens));
    return thinker_output(contents_, request.number, first, step.count);
  }
  // A talker's are the first codes of its frames.
  std::vector<std::int64_t> frame(static_cast<std::size_t>(model().codec.codebook_count));
  for (std::int64_t i = first; i < request.made; ++i) {
    contents_.fill_frame(request.number, i, frame);
    request.output_ids.push_back(frame.front());
  }
  if (step.last) request.output_ids.push_back(model().end_code);
  return talker_output(contents_, request.number, first, step.count, step.last);
}

}  // namespace stagewire::pipeline::omni
