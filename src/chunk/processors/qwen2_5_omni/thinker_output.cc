#include "chunk/processors/qwen2_5_omni/thinker_output.hpp"

#include <array>

namespace stagewire::chunk::qwen2_5_omni {
namespace {

constexpr std::array kDTypes{DType::bfloat16, DType::float32};
constexpr RowForm kRows{kHiddenSize, kDTypes};
constexpr std::string_view kKey = "latent";

}  // namespace

Result<ThinkerRows> read_rows(const ChunkRequest& request, const Value& output, std::int64_t most) {
  if (Status status = check_map(request, output); !status.ok()) return status.error();
  if (output.is_none()) return ThinkerRows();
  const auto latent = find_tensor(request, output, kKey);
  if (!latent.ok()) return latent.error();
  const auto count = count_rows(request, kKey, *latent, kRows, most);
  if (!count.ok()) return count.error();
  return ThinkerRows{*latent, *count};
}

}  // namespace stagewire::chunk::qwen2_5_omni
