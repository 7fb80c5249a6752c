#include "memory/block_state.hpp"

#include <array>
#include <limits>

namespace stagewire::memory {
namespace {

struct Transition {
  BlockState from;
  BlockEvent event;
  BlockState to;
};

// What does not depend on the number of readers.
constexpr std::array kTransitions = {
    Transition{BlockState::free, BlockEvent::allocate, BlockState::staged},
    Transition{BlockState::staged, BlockEvent::free, BlockState::free},
    Transition{BlockState::staged, BlockEvent::publish, BlockState::published},
    Transition{BlockState::staged, BlockEvent::grant, BlockState::granted},
    Transition{BlockState::granted, BlockEvent::end_grant, BlockState::staged},
    Transition{BlockState::granted, BlockEvent::quarantine, BlockState::quarantined},
    Transition{BlockState::quarantined, BlockEvent::end_quarantine, BlockState::free},
};

std::optional<BlockStatus> next_with_readers(BlockStatus now, BlockEvent event) {
  const bool published = now.state == BlockState::published;
  switch (event) {
    case BlockEvent::pin:
      if (!published || now.pins == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
      return BlockStatus{now.state, now.pins + 1};
    case BlockEvent::unpin:
      if (now.pins == 0) return std::nullopt;
      if (!published && now.pins == 1) return BlockStatus{BlockState::free, 0};
      return BlockStatus{now.state, now.pins - 1};
    case BlockEvent::retire:
      if (!published) return std::nullopt;
      return BlockStatus{now.pins == 0 ? BlockState::free : BlockState::retired, now.pins};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<BlockStatus> next_status(BlockStatus now, BlockEvent event) {
  if (now.state == BlockState::published || now.state == BlockState::retired)
    return next_with_readers(now, event);
  for (const Transition& transition : kTransitions) {
    if (transition.from == now.state && transition.event == event) return BlockStatus{transition.to, 0};
  }
  return std::nullopt;
}

std::string_view to_string(BlockState state) {
  switch (state) {
    case BlockState::free:
      return "free";
    case BlockState::staged:
      return "staged";
    case BlockState::published:
      return "published";
    case BlockState::retired:
      return "retired";
    case BlockState::granted:
      return "granted";
    case BlockState::quarantined:
      return "quarantined";
  }
  return "unknown";
}

std::string_view to_string(BlockEvent event) {
  switch (event) {
    case BlockEvent::allocate:
      return "allocate";
    case BlockEvent::publish:
      return "publish";
    case BlockEvent::pin:
      return "pin";
    case BlockEvent::unpin:
      return "unpin";
    case BlockEvent::retire:
      return "retire";
    case BlockEvent::grant:
      return "grant";
    case BlockEvent::end_grant:
      return "end_grant";
    case BlockEvent::quarantine:
      return "quarantine";
    case BlockEvent::end_quarantine:
      return "end_quarantine";
    case BlockEvent::free:
      return "free";
  }
  return "unknown";
}

}  // namespace stagewire::memory
