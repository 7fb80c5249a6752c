// Where backends and control plane deliver: they forward to the engine's private functions.
#pragma once

#include "engine/core.hpp"

namespace stagewire::engine {

class Core::Events final : public EventSink {
 public:
  explicit Events(Core& core) : core_(core) {}
  PeerToken on_peer_arrived(std::span<const std::byte>, std::string_view engine_key) override {
    return core_.arrived(engine_key);
  }
  void on_completion(Completion&& completion) override { core_.complete(std::move(completion)); }
  void on_notification(PeerToken peer, std::uint32_t id) override { core_.notified(peer, id); }
  void on_message(PeerToken peer, std::span<const std::byte> message, MessagePayload payload) override {
    core_.arrived_message(peer, message, std::move(payload));
  }
  void on_peer_lost(PeerToken peer, const Error& reason) override { core_.arrived_lost(peer, reason); }

 private:
  Core& core_;
};

class Core::ControlEvents final : public control::ControlSink {
 public:
  explicit ControlEvents(Core& core) : core_(core) {}
  void on_call(const control::CallerId& caller, std::span<const std::byte> payload) override {
    core_.handle_call(caller, payload);
  }
  void on_answer(control::DialId dial, std::span<const std::byte> payload) override {
    core_.handle_answer(dial, payload);
  }
  void on_connected(control::DialId dial) override { core_.handle_connected(dial, true); }
  void on_disconnected(control::DialId dial) override { core_.handle_connected(dial, false); }

 private:
  Core& core_;
};

}  // namespace stagewire::engine
