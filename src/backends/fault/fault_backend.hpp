// A decorator over another backend that makes things go wrong: what arrives is delayed, lost, doubled or
// overtaken, work requests fail. For tests of what stands above; it breaks the contract on purpose.
//
// A request whose completion was dropped never ends by itself: whoever waits for it needs a deadline (R05).
#pragma once

#include <mutex>

#include "backend/wake_event.hpp"
#include "backends/fault/dice.hpp"
#include "backends/fault/hold_queue.hpp"

namespace stagewire::backends::fault {

/// Passes events on as the dice fall; stands between the inner backend and the engine's sink.
class FaultSink final : public EventSink {
 public:
  FaultSink(const FaultSpec& spec, HoldQueue& held)
      : spec_(spec),
        held_(held),
        message_dice_(spec, 1),
        notification_dice_(spec, 2),
        completion_dice_(spec, 3) {}

  void set_outer(EventSink* outer) { outer_ = outer; }
  PeerToken on_peer_arrived(std::span<const std::byte> peer_address, std::string_view engine_key) override;
  void on_completion(Completion&& completion) override;
  void on_notification(PeerToken peer, std::uint32_t notification) override;
  void on_message(PeerToken peer, std::span<const std::byte> message, MessagePayload payload) override;
  void on_peer_lost(PeerToken peer, const Error& reason) override;

  /// Any thread: the fate of a request that the inner backend completed at once. True when it may be told at
  /// once; else a completion comes later, or never.
  bool completed_at_once(std::uint64_t id);

 private:
  void pass(PeerToken peer, Fate fate, std::function<void(EventSink&)> deliver);
  Fate completion_fate();

  const FaultSpec spec_;
  HoldQueue& held_;
  EventSink* outer_ = nullptr;
  Dice message_dice_;
  Dice notification_dice_;
  std::mutex completion_mutex_;
  Dice completion_dice_;
};

class FaultBackend final : public Backend {
 public:
  FaultBackend(const FaultSpec& spec, std::unique_ptr<Backend> inner);
  Status open();

  std::string_view name() const override { return "fault"; }
  std::string describe() const override { return "another backend with injected faults, for tests"; }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::span<const std::byte> address() const override { return inner_->address(); }
  Status reaches(std::span<const std::byte> peer_address) const override {
    return inner_->reaches(peer_address);
  }
  Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& region, Access access) override {
    return inner_->register_region(region, access);
  }
  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) override;
  std::size_t progress(EventSink& sink, bool messages_only) override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void want_everything(bool on) override { inner_->want_everything(on); }

  /// Any thread. True when the dice say that the request fails; its completion is on the way then.
  bool request_fails(std::uint64_t id);
  bool completed_at_once(std::uint64_t id);

 private:
  const FaultSpec spec_;
  HoldQueue held_;
  FaultSink sink_;
  std::mutex request_mutex_;
  Dice request_dice_;
  base::UniqueFd epoll_;
  base::UniqueFd timer_;
  backend::WakeEvent wake_;
  const std::unique_ptr<Backend> inner_;
};

}  // namespace stagewire::backends::fault
