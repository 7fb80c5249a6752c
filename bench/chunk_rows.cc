#include "chunk_rows.hpp"

#include <cstring>

#include "die.hpp"

namespace stagewire::bench {
namespace {

constexpr std::size_t kNumberAt = kRowSize - sizeof(std::uint64_t);

const TensorView* tensor_at(const Value& payload, std::string_view group, std::string_view name) {
  const Value* const map = payload.find(group);
  const Value* const entry = map == nullptr ? nullptr : map->find(name);
  return entry == nullptr ? nullptr : entry->get_if<TensorView>();
}

const TensorView* rows_in(const Value& payload) {
  const TensorView* const decode = tensor_at(payload, "embed", "decode");
  return decode != nullptr ? decode : tensor_at(payload, "embed", "prefill");
}

void check_numbers(const TensorView* rows, std::uint64_t first) {
  if (rows == nullptr) return;
  for (std::int64_t i = 0; i < rows->shape.at(0); ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, rows->data + static_cast<std::size_t>(i) * kRowSize + kNumberAt, sizeof number);
    const std::uint64_t expected = first + static_cast<std::uint64_t>(i);
    if (number != expected) {
      die("a chunk holds row " + std::to_string(number) + " where row " + std::to_string(expected) +
          " is due");
    }
  }
}

// Of [1, 1, 2048]: what the talker is told of the beginning, the end and the padding of a text.
Value marks() {
  static const std::vector<std::byte> bytes(kRowSize, std::byte{1});
  const TensorView mark{DType::bfloat16, {1, 1, kRowWidth}, bytes.data(), {}};
  return Value::Map{{"tts_bos", mark}, {"tts_eos", mark}, {"tts_pad", mark}};
}

}  // namespace

std::string request_id(std::uint32_t run, std::uint32_t stream) {
  return "chatcmpl-" + std::to_string(run) + "-" + std::to_string(stream);
}

ModelRows::ModelRows(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * kRowSize, std::byte{7}) {
  number_from(0);
}

void ModelRows::number_from(std::uint64_t first) {
  for (std::size_t at = kNumberAt; at < bytes_.size(); at += kRowSize, ++first) {
    std::memcpy(bytes_.data() + at, &first, sizeof first);
  }
}

void ModelRows::stamp(double now) {
  std::memcpy(bytes_.data(), &now, sizeof now);
}

TensorView ModelRows::view() const {
  return {
      DType::bfloat16, {static_cast<std::int64_t>(bytes_.size() / kRowSize), kRowWidth}, bytes_.data(), {}};
}

Value thinker_output(const ModelRows& rows, bool with_marks) {
  Value::Map output{
      {"hidden_states", Value::Map{{"layers", Value::Map{{0, rows.view()}, {24, rows.view()}}}}}};
  if (with_marks) output.emplace_back("embed", marks());
  return output;
}

Value first_chunk_payload(const ModelRows& embedding, const ModelRows& hidden) {
  Value embed = marks();
  auto& entries = *embed.get_if<Value::Map>();
  entries.emplace(entries.begin(), "prefill", embedding.view());
  Value::List all(static_cast<std::size_t>(embedding.view().shape[0]), Value(151'643));
  Value::List prompt(all.begin(), all.end() - 1);
  return Value::Map{{"hidden_states", Value::Map{{"output", hidden.view()}}},
                    {"embed", std::move(embed)},
                    {"ids", Value::Map{{"all", std::move(all)}, {"prompt", std::move(prompt)}}},
                    {"meta", Value::Map{}}};
}

RowsFound find_rows(const Value& payload) {
  RowsFound found;
  if (const TensorView* const rows = rows_in(payload)) {
    if (rows->dtype != DType::bfloat16 || rows->shape.size() != 2 || rows->shape[1] != kRowWidth ||
        rows->shape[0] < 1) {
      die("a chunk's rows are not bfloat16 [n, 2048]");
    }
    std::memcpy(&found.stamp, rows->data, sizeof found.stamp);
    found.count = static_cast<std::uint64_t>(rows->shape[0]);
  }
  const TensorView* const finished = tensor_at(payload, "meta", "finished");
  found.last = finished != nullptr && *finished->data != std::byte{0};
  return found;
}

void check_rows(const Value& payload, std::uint64_t first) {
  check_numbers(rows_in(payload), first);
  check_numbers(tensor_at(payload, "hidden_states", "output"), first);
}

}  // namespace stagewire::bench
