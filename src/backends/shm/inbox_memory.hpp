// The memory of one inbox, shared between the inbox and the payloads that were handed out of it.
#pragma once

#include <atomic>
#include <memory>

#include "backends/shm/ring_layout.hpp"
#include "backends/shm/shared_file.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::shm {

/// Lives until the inbox is dropped and the last payload is destroyed.
class InboxMemory : public std::enable_shared_from_this<InboxMemory> {
 public:
  /// `socket`: where the writer is told of freed space.
  InboxMemory(base::Mapping mapping, const Geometry& geometry, base::UniqueFd socket);

  const RingView& view() const { return view_; }
  int socket() const { return socket_.get(); }

  /// The bytes of a slot, which stays ours until the payload is destroyed. An empty payload when the slot is
  /// out already: the writer broke the protocol.
  MessagePayload hand_out(std::uint32_t slot, std::uint32_t size);

  /// Wakes a writer that waits for space. Any thread.
  void tell_space();

 private:
  static void take_back(void* self, std::uint32_t slot);

  const base::Mapping mapping_;
  const RingView view_;
  const base::UniqueFd socket_;
  const std::unique_ptr<std::atomic<bool>[]> out_;  // our own idea of which slots are lent, one each
};

}  // namespace stagewire::backends::shm
