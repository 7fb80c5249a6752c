// The far ends of the chunk path on arbitrary payloads: a list is a stream of chunks, anything else is one
// chunk. Rows are narrow here, so that short inputs hold whole streams.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "chunk/processors/code_reader.hpp"
#include "chunk/processors/thinker_reader.hpp"

namespace chunk = stagewire::chunk;
using stagewire::Value;

namespace {

constexpr std::array kBfloat16{stagewire::DType::bfloat16};
constexpr std::array kBothFloats{stagewire::DType::bfloat16, stagewire::DType::float32};
constexpr chunk::ThinkerForm kTwoKinds{{2, kBfloat16}, true};
constexpr chunk::ThinkerForm kOneKind{{2, kBothFloats}, false};

// The rows that the reader says are there can be read.
std::int64_t read_rows(const stagewire::TensorView* rows) {
  if (rows == nullptr) return 0;
  STAGEWIRE_CHECK(rows->shape.size() == 2 && rows->shape[0] >= 0 && rows->shape[1] == 2,
                  "rows of another form");
  const auto size = stagewire::byte_size(rows->dtype, rows->shape);
  std::byte all{0};
  for (std::size_t i = 0; i < *size; ++i) all |= rows->data[i];
  [[maybe_unused]] volatile const std::byte read = all;
  return rows->shape[0];
}

void receive_rows(const Value::List& chunks, const chunk::ThinkerForm& form, chunk::Path path) {
  chunk::ThinkerReader reader(form, path, "fuzz");
  std::int64_t count = 0;
  for (const Value& item : chunks) {
    const auto taken = reader.take(item);
    if (!taken.ok()) continue;
    count += read_rows(taken->prefill) + read_rows(taken->decode);
    read_rows(taken->hidden);
    STAGEWIRE_CHECK(reader.row_count() == count, "rows are miscounted");
  }
}

void receive_codes(const Value::List& chunks, const chunk::CodecForm& form, chunk::Path path) {
  chunk::CodeReader reader(form, {4, 6, 2}, path, "fuzz");
  std::int64_t count = 0;
  for (const Value& item : chunks) {
    const auto taken = reader.take(item);
    if (!taken.ok()) continue;
    for (const std::int64_t code : taken->codes)
      STAGEWIRE_CHECK(code >= 0 && code < form.code_count, "a code that is none");
    count += static_cast<std::int64_t>(taken->codes.size()) / form.codebook_count;
    STAGEWIRE_CHECK(reader.frame_count() == count, "frames are miscounted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto payload = stagewire::decode(std::as_bytes(std::span(data, size)));
  if (!payload) return 0;
  auto* const list = payload->get_if<Value::List>();
  const Value::List chunks = list != nullptr ? std::move(*list) : Value::List{std::move(*payload)};
  for (const chunk::Path path : {chunk::Path::chunks, chunk::Path::full_payload}) {
    receive_rows(chunks, kTwoKinds, path);
    receive_rows(chunks, kOneKind, path);
    receive_codes(chunks, chunk::kQwen3Codec, path);
    receive_codes(chunks, chunk::kQwen25Codec, path);
  }
  return 0;
}
