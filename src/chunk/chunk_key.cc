#include "chunk/chunk_key.hpp"

namespace stagewire::chunk {
namespace {

bool strip_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

}  // namespace

std::optional<std::pair<std::string_view, std::int64_t>> parse_chunk_key(std::string_view key,
                                                                         std::string_view from_stage,
                                                                         std::string_view to_stage) {
  if (!strip_end(key, to_stage) || !strip_end(key, "_") || !strip_end(key, from_stage) ||
      !strip_end(key, "@")) {
    return std::nullopt;
  }
  const std::size_t number = key.rfind('_');
  if (number == std::string_view::npos) return std::nullopt;
  std::int64_t chunk = 0;
  const char* const end = key.data() + key.size();
  const auto read = std::from_chars(key.data() + number + 1, end, chunk);
  if (read.ec != std::errc() || read.ptr != end || chunk < 0) return std::nullopt;
  key = key.substr(0, number);
  if (!strip_end(key, from_stage) || !strip_end(key, "_")) return std::nullopt;
  return std::pair(key, chunk);
}

}  // namespace stagewire::chunk
