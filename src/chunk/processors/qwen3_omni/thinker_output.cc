#include "chunk/processors/qwen3_omni/thinker_output.hpp"

#include "base/text.hpp"

namespace stagewire::chunk::qwen3_omni {
namespace {

constexpr std::array kDTypes{DType::bfloat16};
constexpr RowForm kRows{kHiddenSize, kDTypes};
constexpr std::string_view kEmbeddingKey = "hidden_states.layers[0]";
constexpr std::string_view kHiddenKey = "hidden_states.layers[24]";

bool is_mark(const TensorView& tensor) {
  const auto& shape = tensor.shape;
  return tensor.dtype == DType::bfloat16 && shape.size() == 3 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == kHiddenSize;
}

}  // namespace

Result<ThinkerRows> read_rows(const ChunkRequest& request, const Value& output, std::int64_t most) {
  if (Status status = check_map(request, output); !status.ok()) return status.error();
  if (output.is_none()) return ThinkerRows();
  const auto embedding = find_layer(request, output, kEmbeddingLayer);
  if (!embedding.ok()) return embedding.error();
  const auto hidden = find_layer(request, output, kAcceptHiddenLayer);
  if (!hidden.ok()) return hidden.error();
  const auto count = count_rows(request, kEmbeddingKey, *embedding, kRows, most);
  if (!count.ok()) return count.error();
  const auto hidden_count = count_rows(request, kHiddenKey, *hidden, kRows, most);
  if (!hidden_count.ok()) return hidden_count.error();
  if (*count != *hidden_count) {
    return bad_output(request, kHiddenKey,
                      base::text("is ", form_text(**hidden), ", expected as many rows as ", kEmbeddingKey,
                                 " has, which is ", form_text(**embedding)));
  }
  return ThinkerRows{*embedding, *hidden, *count};
}

Result<MarkViews> read_marks(const ChunkRequest& request, const Value& output) {
  MarkViews marks{};
  if (output.is_none()) return marks;
  for (std::size_t i = 0; i < kMarks.size(); ++i) {
    const auto mark = find_tensor(request, output, "embed", kMarks[i]);
    if (!mark.ok()) return mark.error();
    if (*mark != nullptr && !is_mark(**mark)) {
      return bad_output(
          request, base::text("embed.", kMarks[i]),
          base::text("is ", form_text(**mark), ", expected bfloat16 [1, 1, ", kHiddenSize, "]"));
    }
    marks[i] = *mark;
  }
  return marks;
}

Status check_marks(const ChunkRequest& request, const MarkViews& marks, const Marks* kept) {
  for (std::size_t i = 0; i < kMarks.size(); ++i) {
    if (marks[i] != nullptr || (kept != nullptr && !(*kept)[i].empty())) continue;
    return bad_output(
        request, base::text("embed.", kMarks[i]),
        base::text("is missing in this and all steps before, expected bfloat16 [1, 1, ", kHiddenSize, "]"));
  }
  return {};
}

void keep_marks(const MarkViews& marks, Marks& kept) {
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] != nullptr) kept[i].keep(*marks[i]);
  }
}

void append_marks(const Marks& kept, Value::Map& embed) {
  for (std::size_t i = 0; i < kept.size(); ++i) embed.emplace_back(kMarks[i], kept[i].view());
}

}  // namespace stagewire::chunk::qwen3_omni
