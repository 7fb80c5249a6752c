// The whole pipeline in one thread, without a connector: what its output must be, bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire::pipeline::speech {

/// Reads a WAV file, encodes and decodes it; returns the values that the pipeline's output file must hold.
Result<std::vector<std::int16_t>> code_in_one_process(const std::string& input);

}  // namespace stagewire::pipeline::speech
