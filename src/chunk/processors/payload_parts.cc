#include "chunk/processors/payload_parts.hpp"

#include <algorithm>

namespace stagewire::chunk {

Value::List id_list(std::span<const std::int64_t> first, std::span<const std::int64_t> then) {
  Value::List list;
  list.reserve(first.size() + then.size());
  list.insert(list.end(), first.begin(), first.end());
  list.insert(list.end(), then.begin(), then.end());
  return list;
}

SegmentIds SegmentIds::all_of(const ChunkRequest& request) {
  return {id_list(request.prompt_ids, request.output_ids), id_list(request.prompt_ids)};
}

SegmentIds SegmentIds::after(const ChunkRequest& request, std::size_t earlier_count) {
  const auto prompt = request.prompt_ids.subspan(std::min(earlier_count, request.prompt_ids.size()));
  return {id_list(prompt, request.output_ids), id_list(prompt)};
}

SegmentIds SegmentIds::of_prompt(const ChunkRequest& request, std::int64_t row_count) {
  const auto count = std::min(static_cast<std::size_t>(row_count), request.prompt_ids.size());
  const auto prompt = request.prompt_ids.last(count);
  return {id_list(prompt, request.output_ids), id_list(prompt)};
}

bool Voice::take(const ChunkRequest& request) {
  if (speaker_ == request.speaker && language_ == request.language) return false;
  speaker_ = request.speaker;
  language_ = request.language;
  return true;
}

void Voice::append_to(Value::Map& payload) const {
  if (!speaker_.empty()) payload.emplace_back("speaker", std::string_view(speaker_));
  if (!language_.empty()) payload.emplace_back("language", std::string_view(language_));
}

}  // namespace stagewire::chunk
