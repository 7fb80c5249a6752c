#include "backends/local/local_core.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace stagewire::backends::local {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Core>> cores;
};

// Leaked on purpose: backends may be destroyed while the process exits.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// What a message costs of the queue beyond its bytes, so that empty ones are bounded as well.
constexpr std::size_t kItemCost = 16;

}  // namespace

Link::Link(std::shared_ptr<Core> from, std::size_t queue_size, std::size_t slots, std::size_t slot_size)
    : sender_address(from->address),
      from_(from),
      queue_size_(queue_size),
      slots_(slots),
      slot_size_(slot_size),
      payloads_(std::make_unique<std::byte[]>(slots * slot_size)) {
  for (std::size_t slot = slots; slot > 0; --slot)
    free_slots_.push_back(static_cast<std::uint32_t>(slot - 1));
}

PayloadSlot Link::reserve(std::size_t size) {
  if (size == 0 || size > slot_size_) return {};
  const std::lock_guard lock(mutex_);
  if (free_slots_.empty()) {
    sender_waits_ = true;
    return {};
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return {{payloads_.get() + slot * slot_size_, size}, slot};
}

void Link::give_back(std::uint32_t slot) {
  {
    const std::lock_guard lock(mutex_);
    free_slots_.push_back(slot);
  }
  tell_space();
}

MessagePayload Link::lend(const PayloadSlot& slot) {
  if (slot.bytes.empty()) return {};
  const auto release = [](void* link, std::uint32_t index) { static_cast<Link*>(link)->give_back(index); };
  return {slot.bytes, shared_from_this(), release, slot.index};
}

bool Link::add(std::size_t message_size) {
  const std::lock_guard lock(mutex_);
  if (bytes_ + message_size + kItemCost > queue_size_) {
    sender_waits_ = true;
    return false;
  }
  bytes_ += message_size + kItemCost;
  return true;
}

bool Link::crowded() {
  const std::lock_guard lock(mutex_);
  return bytes_ > queue_size_ / 2 || free_slots_.size() < slots_ / 2;
}

void Link::remove(std::size_t message_size) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ -= message_size + kItemCost;
  }
  tell_space();
}

void Link::tell_space() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(sender_waits_, false)) return;
  }
  nudge_sender();
}

void Link::nudge_sender() {
  if (const auto sender = from_.lock()) sender->completions.nudge();
}

void Core::publish(const std::shared_ptr<Core>& core) {
  const std::lock_guard lock(registry().mutex);
  registry().cores[core->id] = core;
}

std::shared_ptr<Core> Core::find(std::uint64_t id) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().cores.find(id);
  return found == registry().cores.end() ? nullptr : found->second.lock();
}

void Core::close() {
  {
    const std::lock_guard lock(registry().mutex);
    registry().cores.erase(id);
  }
  std::deque<Item> dropped;
  std::vector<std::weak_ptr<Link>> links;
  {
    const std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    dropped.swap(items_);
    links.swap(links_);
  }
  for (const auto& weak : links) {
    if (const auto link = weak.lock()) link->nudge_sender();
  }
}

void Core::push(Item item, bool urgent) {
  bool wakes = urgent;
  {
    const std::lock_guard lock(mutex_);
    if (closed()) return;
    if (item.kind == Item::Kind::arrived) {
      std::erase_if(links_, [](const auto& link) { return link.expired(); });
      links_.push_back(item.link);
    }
    items_.push_back(std::move(item));
    has_items_.store(true, std::memory_order_release);
    wakes = wakes || wants_everything_.load();
  }
  if (wakes) wake.wake();
}

std::size_t Core::deliver(EventSink& sink) {
  std::size_t count = 0;
  if (has_items_.load(std::memory_order_acquire)) {
    std::deque<Item> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(items_);
      has_items_.store(false, std::memory_order_relaxed);
    }
    count = taken.size();
    for (Item& item : taken) {
      Link& link = *item.link;
      if (item.kind == Item::Kind::message || item.kind == Item::Kind::notification)
        link.remove(item.bytes.size());
      switch (item.kind) {
        case Item::Kind::arrived:
          link.token = sink.on_peer_arrived(link.sender_address, {});
          break;
        case Item::Kind::message:
          sink.on_message(link.token, item.bytes, std::move(item.payload));
          break;
        case Item::Kind::notification:
          sink.on_notification(link.token, item.notification);
          break;
        case Item::Kind::lost:
          sink.on_peer_lost(link.token, base::error(ErrorCode::unavailable, "a peer in this process closed"));
          break;
      }
    }
  }
  return count + completions.deliver(sink);
}

bool Core::arm() {
  wake.arm();
  if (!completions.empty()) return false;
  const std::lock_guard lock(mutex_);
  return items_.empty();
}

void Core::want_everything(bool on) {
  wants_everything_.store(on);
}

std::uint64_t Core::add_region(const std::shared_ptr<Region>& region) {
  const std::lock_guard lock(mutex_);
  regions_[next_region_] = region;
  return next_region_++;
}

void Core::remove_region(std::uint64_t region) {
  const std::lock_guard lock(mutex_);
  regions_.erase(region);
}

std::shared_ptr<Region> Core::find_region(std::uint64_t region) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  return found == regions_.end() ? nullptr : found->second;
}

}  // namespace stagewire::backends::local
