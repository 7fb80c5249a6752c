#include "pipeline/omni/step_output.hpp"

#include <utility>

#include "chunk/processors/qwen3_omni/thinker_output.hpp"

namespace stagewire::pipeline::omni {
namespace {

namespace qwen3 = chunk::qwen3_omni;

struct ThinkerMemory {
  std::vector<std::byte> embedding, hidden, marks;
};

TensorView rows_of(const Model& model, const std::vector<std::byte>& bytes, std::int64_t count) {
  return {model.row_dtype(), {count, model.thinker.rows.width}, bytes.data(), {}};
}

Value marks_of(const Model& model, const std::vector<std::byte>& bytes) {
  Value::Map marks;
  for (std::size_t i = 0; i < qwen3::kMarks.size(); ++i) {
    marks.emplace_back(
        qwen3::kMarks[i],
        TensorView{
            model.row_dtype(), {1, 1, model.thinker.rows.width}, bytes.data() + i * model.row_size(), {}});
  }
  return marks;
}

}  // namespace

std::vector<std::byte> mark_bytes(const Contents& contents, std::uint64_t request) {
  return contents.rows(RowKind::mark, request, 0, std::ssize(qwen3::kMarks));
}

StepOutput thinker_output(const Contents& contents, std::uint64_t request, std::int64_t first,
                          std::int64_t count) {
  const Model& model = contents.model();
  auto memory = std::make_shared<ThinkerMemory>();
  memory->embedding = contents.rows(RowKind::embedding, request, first, count);
  const TensorView embedding = rows_of(model, memory->embedding, count);
  if (!model.thinker.two_kinds) return {Value::Map{{"latent", embedding}}, std::move(memory)};

  memory->hidden = contents.rows(RowKind::hidden, request, first, count);
  Value::Map layers{{qwen3::kEmbeddingLayer, embedding},
                    {qwen3::kAcceptHiddenLayer, rows_of(model, memory->hidden, count)}};
  Value::Map output{{"hidden_states", Value::Map{{"layers", std::move(layers)}}}};
  if (first == 0) {
    memory->marks = mark_bytes(contents, request);
    output.emplace_back("embed", marks_of(model, memory->marks));
  }
  return {std::move(output), std::move(memory)};
}

StepOutput talker_output(const Contents& contents, std::uint64_t request, std::int64_t first,
                         std::int64_t count, bool ended) {
  const Model& model = contents.model();
  const auto codebooks = static_cast<std::size_t>(model.codec.codebook_count);
  const std::int64_t all = count + (ended ? 1 : 0);
  auto memory = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(all) * codebooks);
  for (std::int64_t i = 0; i < count; ++i) {
    contents.fill_frame(request, first + i,
                        std::span(*memory).subspan(static_cast<std::size_t>(i) * codebooks, codebooks));
  }
  if (ended) (*memory)[static_cast<std::size_t>(count) * codebooks] = model.end_code;
  const TensorView codes{
      DType::int64, {all, model.codec.codebook_count}, std::as_bytes(std::span(*memory)).data(), {}};
  return {Value::Map{{"codes", Value::Map{{"audio", codes}}}}, std::move(memory)};
}

}  // namespace stagewire::pipeline::omni
