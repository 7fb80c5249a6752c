// The deploy file to take where there is no GPU.
#pragma once

#include <string>

namespace stagewire::deploy {

/// The file beside `file` that is named after the same model and ends in `_cpu.yaml`:
/// "deploy/qwen3_omni_moe_cpu.yaml" for "deploy/qwen3_omni_moe_mori_intranode.yaml". Empty when there is
/// none. Looks at the file system only.
std::string cpu_file_beside(const std::string& file);

}  // namespace stagewire::deploy
