#include "pipeline/speech/chunks.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace stagewire::pipeline::speech {
namespace {

Value meta_of(const StreamInfo& stream, bool finished) {
  return Value::Map{{"finished", finished},
                    {"sample_rate", stream.format.sample_rate},
                    {"channels", stream.format.channels},
                    {"sample_count", static_cast<std::int64_t>(stream.sample_count)},
                    {"lookahead", stream.lookahead}};
}

Error no_chunk(std::string_view what) {
  return base::error(ErrorCode::corrupt, "no chunk of speech: ", what);
}

/// The map's entry, never nullptr.
template <typename T>
Result<const T*> field(const Value* map, std::string_view key) {
  const Value* value = map != nullptr ? map->find(key) : nullptr;
  const T* found = value != nullptr ? value->get_if<T>() : nullptr;
  if (found == nullptr) return no_chunk(base::text("its \"", key, "\" is missing or of another type"));
  return found;
}

Result<int> small_field(const Value* map, std::string_view key) {
  const auto value = field<std::int64_t>(map, key);
  if (!value.ok()) return value.error();
  if (**value < 0 || **value > std::numeric_limits<int>::max()) {
    return no_chunk(base::text("its \"", key, "\" is ", **value));
  }
  return static_cast<int>(**value);
}

/// Reads "meta" into what both kinds of chunk have.
template <typename Chunk>
Status read_meta(const Value& payload, Chunk& chunk) {
  const Value* meta = payload.find("meta");
  const auto finished = field<bool>(meta, "finished");
  const auto sample_rate = small_field(meta, "sample_rate");
  const auto channels = small_field(meta, "channels");
  const auto sample_count = field<std::int64_t>(meta, "sample_count");
  const auto lookahead = small_field(meta, "lookahead");
  if (!finished.ok()) return finished.error();
  for (const auto* value : {&sample_rate, &channels, &lookahead}) {
    if (!value->ok()) return value->error();
  }
  if (!sample_count.ok()) return sample_count.error();
  if (**sample_count <= 0) return no_chunk("its \"sample_count\" is not above 0");
  chunk.finished = **finished;
  chunk.stream = {{*sample_rate, *channels}, static_cast<std::uint64_t>(**sample_count), *lookahead};
  return check_stream(chunk.stream);
}

}  // namespace

Value to_payload(const FrameChunk& chunk) {
  const auto frame_values = static_cast<std::int64_t>(chunk.stream.format.frame_values());
  TensorView tensor;
  tensor.dtype = DType::float32;
  tensor.shape = {static_cast<std::int64_t>(chunk.values.size()) / frame_values, frame_values};
  tensor.data = std::as_bytes(std::span(chunk.values)).data();
  return Value::Map{{"audio", std::move(tensor)}, {"meta", meta_of(chunk.stream, chunk.finished)}};
}

Value to_payload(const CodeChunk& chunk) {
  Value::List packets(chunk.packets.begin(), chunk.packets.end());
  return Value::Map{{"codes", Value::Map{{"audio", std::move(packets)}}},
                    {"meta", meta_of(chunk.stream, chunk.finished)}};
}

Result<FrameChunk> read_frame_chunk(const Value& payload) {
  FrameChunk chunk;
  if (Status status = read_meta(payload, chunk); !status.ok()) return status.error();
  const auto audio = field<TensorView>(&payload, "audio");
  if (!audio.ok()) return audio.error();
  const TensorView& tensor = **audio;
  const auto frame_values = chunk.stream.format.frame_values();
  const bool fits = tensor.dtype == DType::float32 && tensor.strides.empty() && tensor.shape.size() == 2 &&
                    tensor.shape[0] >= 0 && std::cmp_equal(tensor.shape[1], frame_values);
  if (!fits)
    return no_chunk(base::text("its \"audio\" is no float32 tensor of [frames, ", frame_values, "]"));
  chunk.values.resize(static_cast<std::size_t>(tensor.shape[0]) * frame_values);
  if (!chunk.values.empty())
    std::memcpy(chunk.values.data(), tensor.data, chunk.values.size() * sizeof(float));
  return chunk;
}

Result<CodeChunk> read_code_chunk(const Value& payload) {
  CodeChunk chunk;
  if (Status status = read_meta(payload, chunk); !status.ok()) return status.error();
  const auto packets = field<Value::List>(payload.find("codes"), "audio");
  if (!packets.ok()) return packets.error();
  for (const Value& packet : **packets) {
    const auto* bytes = packet.get_if<std::span<const std::byte>>();
    if (bytes == nullptr) return no_chunk("a codec frame in its \"codes\" is no bytes");
    chunk.packets.push_back(*bytes);
  }
  return chunk;
}

}  // namespace stagewire::pipeline::speech
