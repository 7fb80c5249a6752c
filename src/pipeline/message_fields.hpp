// The fields of public structs that stand in messages between processes.
#pragma once

#include <nlohmann/json.hpp>

#include "stagewire/pipeline.hpp"

namespace stagewire {

// One list of fields; the macro reads and writes by it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReplayOptions, requests, concurrency, prompt_tokens, output_tokens, trace,
                                   seed)

}  // namespace stagewire
