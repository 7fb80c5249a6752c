// JSON that comes from another process: what nlohmann's conversions do not look at.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "stagewire/result.hpp"

namespace stagewire::pipeline {

/// Numbers become what the fields of a message can hold: a fraction stands only where one is expected, and
/// none is beyond ±2^31 (a conversion would be undefined); times (..._us) are such that no difference of two
/// overflows.
Status check_numbers(const nlohmann::json& object);

/// The code of this number; `failed` for numbers that are none (docs/errors.md).
ErrorCode known_code(ErrorCode code);

}  // namespace stagewire::pipeline
