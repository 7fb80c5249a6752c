// What the talker gets from the thinker.
#include <array>
#include <cstring>

#include "base/text.hpp"
#include "chunk/processors/qwen3_omni/thinker_output.hpp"
#include "pipeline/omni/far_end.hpp"
#include "pipeline/omni/step_output.hpp"

namespace stagewire::pipeline::omni {
namespace {

const Value* find_in(const Value& payload, std::string_view group, std::string_view name) {
  const Value* map = payload.find(group);
  return map != nullptr ? map->find(name) : nullptr;
}

class ThinkerFarEnd final : public FarEnd {
 public:
  ThinkerFarEnd(const Contents& contents, const ExpectedStream& expected)
      : contents_(contents),
        expected_(expected),
        reader_(contents.model().thinker, expected.path, expected.external_id),
        row_(contents.model().row_size()) {}

  Status take(const Value& payload) override {
    const std::int64_t first = reader_.row_count();
    const auto chunk = reader_.take(payload);
    if (!chunk.ok()) return chunk.error();
    const std::int64_t prefill_rows = chunk->prefill != nullptr ? chunk->prefill->shape[0] : 0;
    // Row by row: the first kind, in both its places, and the other one beside it.
    for (const Status& status :
         {check_rows("prefill", RowKind::embedding, chunk->prefill, first),
          check_rows("decode", RowKind::embedding, chunk->decode, first + prefill_rows),
          check_rows("hidden_states", RowKind::hidden, chunk->hidden, first), check_prompt(*chunk, payload),
          check_marks(payload, first), check_end()}) {
      if (!status.ok()) return status;
    }
    return {};
  }
  bool finished() const override { return reader_.finished(); }
  std::int64_t received() const override {
    return std::max<std::int64_t>(reader_.row_count() - expected_.prompt_tokens, 0);
  }

 private:
  template <typename... Parts>
  Error differs(const Parts&... parts) const {
    return base::error(ErrorCode::corrupt, expected_.external_id, ": ", parts...);
  }

  Status check_rows(std::string_view what, RowKind kind, const TensorView* rows, std::int64_t first) {
    if (rows == nullptr) return {};
    const std::size_t row_size = row_.size() * (rows->dtype == DType::float32 ? 2 : 1);
    for (std::int64_t i = 0; i < rows->shape[0]; ++i) {
      contents_.fill_row(kind, expected_.request, first + i, row_);
      const std::byte* got = rows->data + static_cast<std::size_t>(i) * row_size;
      const bool same =
          rows->dtype == DType::float32 ? is_widened(got) : std::memcmp(got, row_.data(), row_.size()) == 0;
      if (!same) return differs("row ", first + i, " (", what, ") is not the one that the thinker made");
    }
    return {};
  }

  /// Whether these are the float32 numbers of the row's bfloat16 ones: their bits, and sixteen zeros below.
  bool is_widened(const std::byte* got) const {
    for (std::size_t at = 0; at < row_.size(); at += sizeof(std::uint16_t)) {
      std::uint16_t half = 0;
      std::uint32_t number = 0;
      std::memcpy(&half, row_.data() + at, sizeof half);
      std::memcpy(&number, got + 2 * at, sizeof number);
      if (number != std::uint32_t{half} << 16U) return false;
    }
    return true;
  }

  Status check_prompt(const chunk::ThinkerChunk& chunk, const Value& payload) const {
    if (chunk.prompt_ids == nullptr) return {};
    if (std::ssize(*chunk.prompt_ids) != expected_.prompt_tokens) {
      return differs("the prompt has ", chunk.prompt_ids->size(), " ids, expected ", expected_.prompt_tokens);
    }
    if (Status status = check_ids("prompt", *chunk.prompt_ids, expected_.prompt_tokens); !status.ok())
      return status;
    const auto flat = payload.find("thinker_output_token_ids");
    const auto* output = flat != nullptr ? flat->get_if<Value::List>() : nullptr;
    if (output != nullptr) return check_ids("output", *output, 0);
    const Value* all = find_in(payload, "ids", "all");
    const auto* ids = all != nullptr ? all->get_if<Value::List>() : nullptr;
    if (ids == nullptr) return differs("ids.all is missing beside ids.prompt");
    return check_ids("all", *ids, expected_.prompt_tokens);
  }

  /// The first `prompt_count` ids are those of the prompt, further ones those of the output, as many as there
  /// are rows after the prompt by now.
  Status check_ids(std::string_view what, const Value::List& ids, std::int64_t prompt_count) const {
    const std::int64_t outputs = expected_.path == chunk::Path::full_payload
                                     ? expected_.row_count - expected_.prompt_tokens
                                     : received();
    const std::int64_t expected_count = what == "prompt" ? prompt_count : prompt_count + outputs;
    if (std::ssize(ids) != expected_count)
      return differs("there are ", ids.size(), " ids (", what, "), expected ", expected_count);
    for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
      const std::int64_t id = i < prompt_count ? contents_.prompt_id(expected_.request, i)
                                               : contents_.output_id(expected_.request, i - prompt_count);
      const auto* got = ids[static_cast<std::size_t>(i)].get_if<std::int64_t>();
      if (got == nullptr || *got != id) return differs("id ", i, " (", what, ") is not ", id);
    }
    return {};
  }

  /// Qwen3-Omni's first chunk brings them.
  Status check_marks(const Value& payload, std::int64_t first) const {
    if (!contents_.model().thinker.two_kinds || first != 0 || reader_.row_count() == 0) return {};
    const std::vector<std::byte> bytes = mark_bytes(contents_, expected_.request);
    for (std::size_t i = 0; i < chunk::qwen3_omni::kMarks.size(); ++i) {
      const std::string_view name = chunk::qwen3_omni::kMarks[i];
      const Value* mark = find_in(payload, "embed", name);
      const auto* tensor = mark != nullptr ? mark->get_if<TensorView>() : nullptr;
      const Result<std::uint64_t> size =
          tensor != nullptr ? byte_size(tensor->dtype, tensor->shape) : std::uint64_t{0};
      if (!size.ok() || *size != row_.size() ||
          std::memcmp(tensor->data, bytes.data() + i * row_.size(), row_.size()) != 0)
        return differs("embed.", name, " is not the one that the thinker made");
    }
    return {};
  }

  Status check_end() const {
    if (!finished()) return {};
    // A whole payload of Qwen3-Omni leaves the last row out, which belongs to the stop token.
    const bool without_last = expected_.path == chunk::Path::full_payload &&
                              contents_.model().thinker.two_kinds && expected_.row_count > 1;
    const std::int64_t expected = expected_.row_count - (without_last ? 1 : 0);
    if (reader_.row_count() == expected) return {};
    return differs("ended after ", reader_.row_count(), " rows, expected ", expected);
  }

  const Contents& contents_;
  const ExpectedStream expected_;
  chunk::ThinkerReader reader_;
  std::vector<std::byte> row_;
};

}  // namespace

std::unique_ptr<FarEnd> make_thinker_far_end(const Contents& contents, const ExpectedStream& expected) {
  return std::make_unique<ThinkerFarEnd>(contents, expected);
}

}  // namespace stagewire::pipeline::omni
