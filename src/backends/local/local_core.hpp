// What engines of one process share: each backend object has a core, which its peers hold on to.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "backend/completion_queue.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::backends::local {

/// A registered region. Copies hold `in_use` shared; deregistering takes it alone, so no copy outlives it.
struct Region {
  MemoryRegion memory;
  Access access = Access::local_only;
  std::uint64_t token = 0;
  std::shared_mutex in_use;
  bool alive = true;
};

class Core;

/// One connection, in one direction: payload slots and what is under way.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<Core> from, std::size_t queue_size, std::size_t slots, std::size_t slot_size);

  PayloadSlot reserve(std::size_t size);
  void give_back(std::uint32_t slot);
  MessagePayload lend(const PayloadSlot& slot);

  /// False, and the sender is nudged later, when too much is under way. A notification is a message of no
  /// bytes.
  bool add(std::size_t message_size);
  void remove(std::size_t message_size);
  /// Whether so much is under way that a sleeping receiver had better look.
  bool crowded();
  /// Has the sender's progress() report an event.
  void nudge_sender();

  const std::vector<std::byte> sender_address;
  // Of the receiver's progress():
  EventSink::PeerToken token = 0;

 private:
  void tell_space();

  const std::weak_ptr<Core> from_;
  const std::size_t queue_size_;
  const std::size_t slots_;
  const std::size_t slot_size_;
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  bool sender_waits_ = false;
  std::vector<std::uint32_t> free_slots_;
  const std::unique_ptr<std::byte[]> payloads_;
};

/// Something on its way to the core's owner.
struct Item {
  enum class Kind { arrived, message, notification, lost } kind = Kind::message;
  std::shared_ptr<Link> link;
  std::vector<std::byte> bytes;
  std::uint32_t notification = 0;
  MessagePayload payload;
};

/// Thread-safe. Lives on, closed, while peers hold it after the backend is gone.
class Core {
 public:
  Core(std::vector<std::byte> packed_address, std::uint64_t unique)
      : address(std::move(packed_address)), id(unique) {}

  /// Cores by id, over the whole process.
  static void publish(const std::shared_ptr<Core>& core);
  static std::shared_ptr<Core> find(std::uint64_t id);

  void close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  void push(Item item, bool urgent);
  std::size_t deliver(EventSink& sink);
  bool arm();
  void disarm() { wake.disarm(); }
  void want_everything(bool on);

  std::uint64_t add_region(const std::shared_ptr<Region>& region);
  void remove_region(std::uint64_t region);
  std::shared_ptr<Region> find_region(std::uint64_t region);

  const std::vector<std::byte> address;
  const std::uint64_t id;
  backend::WakeEvent wake;
  backend::CompletionQueue completions{wake};

 private:
  std::atomic<bool> closed_{false};
  std::atomic<bool> wants_everything_{false};
  std::mutex mutex_;
  std::deque<Item> items_;
  std::atomic<bool> has_items_{false};
  std::vector<std::weak_ptr<Link>> links_;  // to us
  std::map<std::uint64_t, std::shared_ptr<Region>> regions_;
  std::uint64_t next_region_ = 1;
};

}  // namespace stagewire::backends::local
