#include "chunk/processors/payload_parts.hpp"

namespace stagewire::chunk {

Value::List id_list(std::span<const std::int64_t> first, std::span<const std::int64_t> then) {
  Value::List list;
  list.reserve(first.size() + then.size());
  list.insert(list.end(), first.begin(), first.end());
  list.insert(list.end(), then.begin(), then.end());
  return list;
}

std::span<const std::int64_t> last_of(std::span<const std::int64_t> ids, std::int64_t count) {
  const auto wanted = static_cast<std::size_t>(count);
  return wanted < ids.size() ? ids.last(wanted) : ids;
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
