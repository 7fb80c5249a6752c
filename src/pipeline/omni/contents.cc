#include "pipeline/omni/contents.hpp"

#include <cstring>

#include "base/check.hpp"

namespace stagewire::pipeline::omni {
namespace {

constexpr std::int64_t kTextTokens = 151'643;  // of both models' vocabularies, special ones left out

/// What a stream of numbers belongs to; rows follow by their kind.
enum class Stream : std::uint64_t { prompt_ids = 16, output_ids, frames };

/// The finalizer of SplitMix64: spreads every bit over all bits.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

std::uint64_t start_of(std::uint64_t seed, std::uint64_t stream, std::uint64_t request, std::int64_t index) {
  std::uint64_t state = mix(seed + kStep);
  for (const std::uint64_t part : {stream, request, static_cast<std::uint64_t>(index)})
    state = mix(state + kStep * (part + 1));
  return state;
}

std::int64_t below(std::uint64_t number, std::int64_t bound) {
  return static_cast<std::int64_t>(number % static_cast<std::uint64_t>(bound));
}

}  // namespace

void Contents::fill_row(RowKind kind, std::uint64_t request, std::int64_t row,
                        std::span<std::byte> out) const {
  STAGEWIRE_CHECK(out.size() % sizeof(std::uint64_t) == 0, "rows are whole words");
  std::uint64_t state = start_of(seed_, static_cast<std::uint64_t>(kind), request, row);
  for (std::size_t at = 0; at < out.size(); at += sizeof state) {
    state += kStep;
    const std::uint64_t word = mix(state);
    std::memcpy(out.data() + at, &word, sizeof word);
  }
}

std::vector<std::byte> Contents::rows(RowKind kind, std::uint64_t request, std::int64_t first,
                                      std::int64_t count) const {
  const std::size_t size = model_.row_size();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size);
  for (std::int64_t i = 0; i < count; ++i)
    fill_row(kind, request, first + i, std::span(bytes).subspan(static_cast<std::size_t>(i) * size, size));
  return bytes;
}

std::int64_t Contents::prompt_id(std::uint64_t request, std::int64_t index) const {
  return below(start_of(seed_, static_cast<std::uint64_t>(Stream::prompt_ids), request, index), kTextTokens);
}

std::int64_t Contents::output_id(std::uint64_t request, std::int64_t index) const {
  return below(start_of(seed_, static_cast<std::uint64_t>(Stream::output_ids), request, index), kTextTokens);
}

void Contents::fill_frame(std::uint64_t request, std::int64_t frame, std::span<std::int64_t> out) const {
  std::uint64_t state = start_of(seed_, static_cast<std::uint64_t>(Stream::frames), request, frame);
  for (std::int64_t& code : out) {
    state += kStep;
    code = below(mix(state), model_.codec.code_count);
  }
  // A frame of zeros only would mean "no frame".
  out[0] = 1 + below(mix(state + kStep), model_.codec.code_count - 1);
}

}  // namespace stagewire::pipeline::omni
