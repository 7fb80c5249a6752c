// What the replayed model makes in one step, in the form in which the processors of the chunk path take it.
#pragma once

#include <memory>

#include "pipeline/omni/contents.hpp"
#include "stagewire/payload.hpp"

namespace stagewire::pipeline::omni {

struct StepOutput {
  Value value;                         ///< a map
  std::shared_ptr<const void> memory;  ///< what it points into
};

/// Rows `first` to `first + count - 1` of a request's thinker. The first ones come with the talker's marks
/// where the model has them.
StepOutput thinker_output(const Contents& contents, std::uint64_t request, std::int64_t first,
                          std::int64_t count);

/// Frames `first` to `first + count - 1` of its talker; with `ended` followed by a frame that is no audio, by
/// which the talker says that it has ended.
StepOutput talker_output(const Contents& contents, std::uint64_t request, std::int64_t first,
                         std::int64_t count, bool ended);

/// The bytes of the talker's three marks, in the order bos, eos, pad.
std::vector<std::byte> mark_bytes(const Contents& contents, std::uint64_t request);

}  // namespace stagewire::pipeline::omni
