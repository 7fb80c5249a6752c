#include "chunk/processors/prompt_progress.hpp"

#include <algorithm>

#include "chunk/processors/model_output.hpp"

namespace stagewire::chunk {

std::int64_t PromptProgress::most_rows(const ChunkRequest& request) const {
  if (!begun_) return std::max<std::int64_t>(std::ssize(request.prompt_ids) - held_, 0) + kMaxDecodeRows;
  return streaming_ || request.resumable ? std::ssize(request.prompt_ids) + kMaxDecodeRows : kMaxDecodeRows;
}

StepPlan PromptProgress::plan(const ChunkRequest& request, std::int64_t row_count, bool terminal) const {
  StepPlan plan;
  if (!begun_) {
    const std::int64_t missing = std::max<std::int64_t>(std::ssize(request.prompt_ids) - held_, 0);
    plan.prompt_rows = std::min(row_count, missing);
    plan.with_prompt = held_ + row_count > 0;
  } else if (streaming_ || request.resumable) {
    const bool before_output = request.output_ids.empty() && (!terminal || held_ > 0);
    if (row_count > 1 || (row_count == 1 && before_output)) plan.prompt_rows = row_count;
    plan.with_prompt = held_ + plan.prompt_rows > 0;
  }
  plan.reply_rows = row_count - plan.prompt_rows;
  plan.send = plan.reply_rows > 0 || (plan.with_prompt && terminal);
  return plan;
}

void PromptProgress::apply(const ChunkRequest& request, const StepPlan& plan) {
  streaming_ = streaming_ || request.resumable;
  begun_ = begun_ || plan.send;
  held_ = plan.send ? 0 : held_ + plan.prompt_rows;
}

}  // namespace stagewire::chunk
