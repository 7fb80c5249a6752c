#include "base/text.hpp"
#include "chunk/processors/qwen2_5_omni/thinker2talker_async_chunk.hpp"
#include "chunk/processors/qwen2_5_omni/thinker2talker_full_payload.hpp"
#include "chunk/processors/qwen3_omni/thinker2talker_async_chunk.hpp"
#include "chunk/processors/qwen3_omni/thinker2talker_full_payload.hpp"
#include "chunk/processors/talker2code2wav_async_chunk.hpp"
#include "chunk/processors/talker2code2wav_full_payload.hpp"

namespace stagewire {
namespace {

using Made = Result<std::unique_ptr<ChunkProcessor>>;

template <typename Processor>
Made without_sizes(const ChunkProcessorOptions&) {
  return std::unique_ptr<ChunkProcessor>(std::make_unique<Processor>());
}

template <const chunk::CodecForm& form>
Made windows(const ChunkProcessorOptions& options) {
  const auto sizes = chunk::WindowSizes::from(options, form);
  if (!sizes.ok()) return sizes.error();
  return std::unique_ptr<ChunkProcessor>(std::make_unique<chunk::Talker2Code2WavAsyncChunk>(form, *sizes));
}

struct Entry {
  std::string_view name;
  Made (*make)(const ChunkProcessorOptions&);
};

constexpr Entry kProcessors[] = {
    {"qwen3_omni.thinker2talker_async_chunk", without_sizes<chunk::qwen3_omni::Thinker2TalkerAsyncChunk>},
    {"qwen3_omni.talker2code2wav_async_chunk", windows<chunk::kQwen3Codec>},
    {"qwen3_omni.thinker2talker_full_payload", without_sizes<chunk::qwen3_omni::Thinker2TalkerFullPayload>},
    {"qwen3_omni.talker2code2wav_full_payload", without_sizes<chunk::Qwen3Talker2Code2WavFullPayload>},
    {"qwen2_5_omni.thinker2talker_async_chunk", without_sizes<chunk::qwen2_5_omni::Thinker2TalkerAsyncChunk>},
    {"qwen2_5_omni.talker2code2wav_async_chunk", windows<chunk::kQwen25Codec>},
    {"qwen2_5_omni.thinker2talker_full_payload",
     without_sizes<chunk::qwen2_5_omni::Thinker2TalkerFullPayload>},
    {"qwen2_5_omni.talker2code2wav_full_payload", without_sizes<chunk::Qwen25Talker2Code2WavFullPayload>}};

}  // namespace

Result<std::unique_ptr<ChunkProcessor>> make_chunk_processor(std::string_view name,
                                                             const ChunkProcessorOptions& options) {
  std::string known;
  for (const Entry& entry : kProcessors) {
    if (entry.name == name) return entry.make(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return base::error(ErrorCode::invalid_argument, "there is no chunk processor ", name, ", there are ",
                     known);
}

}  // namespace stagewire
