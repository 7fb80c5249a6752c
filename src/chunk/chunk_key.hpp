// The keys of a request's chunks, `{external_id}_{from_stage}_{chunk}`.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stagewire::chunk {

/// Makes one key after the other in the same memory.
class ChunkKey {
 public:
  static constexpr std::size_t kMaxDigits = 20;

  void begin(std::string_view external_id, std::string_view from_stage) {
    text_.clear();
    text_.reserve(external_id.size() + from_stage.size() + 2 + kMaxDigits);
    text_.append(external_id).append("_").append(from_stage).append("_");
    prefix_size_ = text_.size();
  }
  /// Valid until the next call.
  std::string_view at(std::int64_t chunk) {
    char digits[kMaxDigits];
    const auto end = std::to_chars(digits, digits + sizeof digits, chunk).ptr;
    text_.resize(prefix_size_);
    text_.append(digits, end);
    return text_;
  }

 private:
  std::string text_;
  std::size_t prefix_size_ = 0;
};

/// External id and chunk number of a connector's key, `{external_id}_{from}_{chunk}@{from}_{to}`, of this
/// edge; nullopt for any other. The id is a view into the key.
std::optional<std::pair<std::string_view, std::int64_t>> parse_chunk_key(std::string_view key,
                                                                         std::string_view from_stage,
                                                                         std::string_view to_stage);

}  // namespace stagewire::chunk
