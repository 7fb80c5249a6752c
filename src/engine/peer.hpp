// What an engine knows about another engine, and about the addresses it calls.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/control_plane.hpp"
#include "stagewire/backend.hpp"
#include "stagewire/descriptor.hpp"
#include "wire/messages.hpp"

namespace stagewire::engine {

class TransferImpl;

/// The backends of one engine, in order of preference. Shared by the engine and everything that uses an
/// endpoint or an import of theirs, so that a delivery may outlive the engine it came through.
using BackendSet = std::vector<std::unique_ptr<Backend>>;

/// A message that could not be sent yet.
struct QueuedMessage {
  std::vector<std::byte> bytes;
  PayloadSlot slot;
  bool urgent = true;
};

/// One instance of another engine. A restarted engine is another Peer.
struct Peer : std::enable_shared_from_this<Peer> {
  std::shared_ptr<BackendSet> backends;
  EngineDesc desc;
  std::atomic<bool> lost{false};
  EventSink::PeerToken token = 0;  ///< of its connection to us; under the engine's mutex_

  std::mutex mutex;                    ///< guards everything below; taken after the connector's mutex
  wire::Hello hello;                   ///< the last one, with the peer's pool
  MemoryDesc pool;                     ///< unpacked from the hello; size 0 = has none
  control::DialId dial = 0;            ///< how to reach it over the control plane: we called it...
  control::CallerId caller;            ///< ...or it called us
  Backend* backend = nullptr;          ///< carries its messages and transfers; nullptr = control plane only
  std::shared_ptr<Endpoint> endpoint;  ///< shared with callers that copy on their own threads
  std::string route_reason;
  bool met = false;                  ///< its hello was seen
  bool was_up = false;               ///< its endpoint has been up
  std::deque<QueuedMessage> outbox;  ///< in order; not empty = everything queues behind it
  std::deque<std::shared_ptr<TransferImpl>> waiting_transfers;  ///< not posted yet
  std::map<std::vector<std::byte>, std::shared_ptr<RemoteRegion>>
      imports;  ///< by remote key; die before endpoint

  bool noted_busy = false;  ///< under the engine's busy_mutex_

  bool busy() const { return !outbox.empty() || !waiting_transfers.empty(); }
  ~Peer();
};

using PeerPtr = std::shared_ptr<Peer>;

/// An address that is called, and whoever answers there now.
struct Dial {
  enum class State { calling, met, original };
  std::string host;
  int port = 0;

  std::mutex mutex;
  control::DialId id = 0;
  State state = State::calling;
  PeerPtr peer;         ///< nullptr while calling
  std::string trouble;  ///< the last reason why nobody was met
  bool hung_up = false;

  std::string name() const { return host + ":" + std::to_string(port); }
};

using DialPtr = std::shared_ptr<Dial>;

}  // namespace stagewire::engine
