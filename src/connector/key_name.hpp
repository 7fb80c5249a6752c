// A payload's internal key, `{key}@{from_stage}_{to_stage}`, in memory of its own.
#pragma once

#include <array>
#include <string_view>

#include "stagewire/result.hpp"
#include "wire/messages.hpp"

namespace stagewire::connector {

class KeyName {
 public:
  /// `invalid_argument` for an empty key, or one that is too long.
  Status set(std::string_view key, std::string_view from_stage, std::string_view to_stage);
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, wire::kMaxKeySize> bytes_;  // as much as size_ says is set
  std::size_t size_ = 0;
};

}  // namespace stagewire::connector
