// The maps that stand for tensors and arrays: those with a true entry under one of these names.
#pragma once

#include <string_view>

#include "stagewire/payload.hpp"

namespace stagewire::payload {

inline constexpr std::string_view kTensorMarker = "__tensor__";
inline constexpr std::string_view kNdarrayMarker = "__ndarray__";

/// The last entry with this string key, nullptr when there is none.
const Value* find_entry(const Value::Map& map, std::string_view key);

/// Whether the entry is there and Python takes it for true.
bool is_marked(const Value::Map& map, std::string_view marker);

}  // namespace stagewire::payload
