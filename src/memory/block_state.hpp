// The states of a pool's block and the only ways from one to another. A pure table: no memory, no lock, no
// clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stagewire::memory {

enum class BlockState : std::uint8_t {
  free,         ///< no block
  staged,       ///< its holder may read and write it, nobody else knows of it
  published,    ///< under a key: read-only, `pins` readers
  retired,      ///< no key any more, its last readers are still at it; nobody can join them
  granted,      ///< a writer elsewhere may write into it
  quarantined,  ///< given up by its holder, but the writer has not been seen to stop
};

enum class BlockEvent : std::uint8_t {
  allocate,
  publish,
  pin,
  unpin,
  retire,
  grant,
  end_grant,
  quarantine,
  end_quarantine,
  free,
};

struct BlockStatus {
  BlockState state = BlockState::free;
  std::uint32_t pins = 0;  ///< readers; more than 0 only in `published` and `retired`, never 0 in `retired`
};

/// What the event makes of the block; nullopt when it is illegal there (or would be one pin too many to
/// count).
std::optional<BlockStatus> next_status(BlockStatus now, BlockEvent event);

std::string_view to_string(BlockState state);
std::string_view to_string(BlockEvent event);

}  // namespace stagewire::memory
