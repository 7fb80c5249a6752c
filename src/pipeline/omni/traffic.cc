#include "pipeline/omni/traffic.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "pipeline/omni/trace.hpp"

namespace stagewire::pipeline::omni {
namespace {

constexpr std::uint64_t kMaxRequests = kMaxTraceRequests;
constexpr std::uint64_t kMaxConcurrency = 4096;
constexpr std::uint64_t kMaxOutputTokens = 100'000;

Status check(std::string_view option, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return base::error(ErrorCode::invalid_argument, option, " is ", value, ", it must be 1 to ", most);
}

}  // namespace

Result<Traffic> Traffic::create(const Model& model, const ReplayOptions& options, bool async_chunk) {
  Traffic traffic(model);
  if (!options.trace.empty()) {
    auto trace = read_trace(options.trace);
    if (!trace.ok()) return trace.error();
    traffic.trace_ = std::move(*trace);
    traffic.shape_.concurrency = traffic.trace_.size();  // the trace says when they begin
    return traffic;
  }
  for (const Status& status : {check("--requests", options.requests, kMaxRequests),
                               check("--concurrency", options.concurrency, kMaxConcurrency),
                               check("--prompt-tokens", options.prompt_tokens, kMaxPromptTokens),
                               check("--output-tokens", options.output_tokens, kMaxOutputTokens)}) {
    if (!status.ok()) return status.error();
  }
  traffic.count_ = options.requests;
  traffic.shape_.concurrency = std::min(options.concurrency, options.requests);
  traffic.shape_.prompt_tokens = static_cast<std::int64_t>(options.prompt_tokens);
  traffic.shape_.output_tokens = static_cast<std::int64_t>(options.output_tokens);
  traffic.shape_.async_chunk = async_chunk;
  return traffic;
}

std::uint64_t Traffic::request_count() const {
  return trace_.empty() ? count_ : trace_.size();
}

RequestSchedule Traffic::request(std::uint64_t number) const {
  if (!trace_.empty()) return trace_[number];
  RequestSchedule schedule = computed_schedule(*model_, shape_);
  schedule.external_id = external_id(number);
  return schedule;
}

std::string Traffic::external_id(std::uint64_t number) const {
  return trace_.empty() ? base::text("request-", number) : trace_[number].external_id;
}

std::uint64_t Traffic::step_count(std::uint64_t number) const {
  if (!trace_.empty()) return trace_[number].thinker.size() + trace_[number].talker.size();
  const std::int64_t rows = 1 + shape_.output_tokens;  // the prompt's are made at once
  return static_cast<std::uint64_t>(rows + frames_of(*model_, shape_.output_tokens));
}

std::int64_t Traffic::frame_count(std::uint64_t number) const {
  return trace_.empty() ? frames_of(*model_, shape_.output_tokens) : trace_[number].frame_count();
}

}  // namespace stagewire::pipeline::omni
