// A peer that speaks only the original's protocol, written from the protocol alone: raw ZeroMQ sockets and
// msgpack bytes put together by hand. Its data plane is an IOEngine, whose packed descriptors are the opaque
// blobs of a pull.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "engine/engine_fixture.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::compat {

using testing_support::kPatience;
using testing_support::ms;

// --- msgpack by hand: the shortest form of each type
// -----------------------------------------------------------------------

inline std::string big_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int shift = (size - 1) * 8; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> static_cast<unsigned>(shift)));
  }
  return bytes;
}

inline std::string packed_uint(std::uint64_t value) {
  if (value < 128) return big_endian(value, 1);
  if (value <= 0xff) return "\xcc" + big_endian(value, 1);
  if (value <= 0xffff) return "\xcd" + big_endian(value, 2);
  if (value <= 0xffffffff) return "\xce" + big_endian(value, 4);
  return "\xcf" + big_endian(value, 8);
}

inline std::string packed_text(const std::string& text) {
  if (text.size() < 32) return big_endian(0xa0 | text.size(), 1) + text;
  return "\xd9" + big_endian(text.size(), 1) + text;
}

inline std::string packed_binary(const std::string& bytes) {
  if (bytes.size() <= 0xff) return "\xc4" + big_endian(bytes.size(), 1) + bytes;
  return "\xc5" + big_endian(bytes.size(), 2) + bytes;
}

inline std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string query_of(const std::string& key) {
  return "query_info\x81" + packed_text("request_id") + packed_text(key);
}

inline std::string reply_of(const std::string& key, std::uint64_t size, bool fast) {
  return "\x83" + packed_text("request_id") + packed_text(key) + packed_text("data_size") +
         packed_uint(size) + packed_text("is_fast_path") + (fast ? "\xc3" : "\xc2");
}

struct PullFields {
  std::string key;
  std::string engine;
  std::string memory;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

inline std::string pull_of(const PullFields& pull) {
  return "\x85" + packed_text("request_id") + packed_text(pull.key) + packed_text("engine_desc_packed") +
         packed_binary(pull.engine) + packed_text("mem_desc_packed") + packed_binary(pull.memory) +
         packed_text("dst_offset") + packed_uint(pull.offset) + packed_text("length") +
         packed_uint(pull.length);
}

/// Takes a pull request apart; fails the test when a byte is not as the protocol says.
class PullReader {
 public:
  explicit PullReader(std::string bytes) : bytes_(std::move(bytes)) {}

  PullFields read() {
    PullFields pull;
    EXPECT_EQ(number(1), 0x85U);
    name("request_id");
    pull.key = text();
    name("engine_desc_packed");
    pull.engine = binary();
    name("mem_desc_packed");
    pull.memory = binary();
    name("dst_offset");
    pull.offset = integer();
    name("length");
    pull.length = integer();
    EXPECT_EQ(at_, bytes_.size()) << "bytes after the last field";
    return pull;
  }

 private:
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const char c : take(size)) value = value << 8U | static_cast<unsigned char>(c);
    return value;
  }
  std::string take(std::size_t size) {
    if (size > bytes_.size() - at_) {
      ADD_FAILURE() << "the pull request ends early";
      size = bytes_.size() - at_;
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string text() {
    const std::uint64_t head = number(1);
    return take(head == 0xd9 ? number(1) : head & 0x1fU);
  }
  std::string binary() {
    const std::uint64_t head = number(1);
    return take(number(head == 0xc4 ? 1 : head == 0xc5 ? 2 : 4));
  }
  std::uint64_t integer() {
    const std::uint64_t head = number(1);
    return head < 128 ? head : number(std::size_t{1} << (head - 0xcc));
  }
  void name(const std::string& expected) { EXPECT_EQ(text(), expected); }

  const std::string bytes_;
  std::size_t at_ = 0;
};

// --- The two ends
// -----------------------------------------------------------------------------------------------------

inline std::unique_ptr<Connector> make_connector(ConnectorConfig config) {
  config.stage_id = 1;
  config.role = Role::dual;
  config.zmq_port = config.zmq_port == 50051 ? 0 : config.zmq_port;
  config.memory_pool_size = 8 << 20;
  if (config.backend_type == "auto") config.backend_type = "shm";
  auto made = Connector::create(config);
  EXPECT_TRUE(made.ok()) << made.error().to_string();
  return made ? std::move(*made) : nullptr;
}

/// The original's receiver: a REQ socket, and a pool that the sender writes into.
class OriginalReceiver {
 public:
  OriginalReceiver(int port, const IOEngineConfig& engine_config)
      : engine(testing_support::make_engine(engine_config)),
        pool(testing_support::EnginePair::memory_of(*engine, 1 << 20, Access::remote_write)),
        port_(port) {
    std::memset(pool->bytes().data(), 0x5a, pool->bytes().size());
    connect(zmq::socket_type::req);
  }

  /// A socket of the other kind, which may send without waiting for the answer.
  void connect(zmq::socket_type type) {
    socket_ = zmq::socket_t(context_, type);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(kPatience.count()));
    socket_.connect("tcp://127.0.0.1:" + std::to_string(port_));
  }

  std::string ask(const std::string& request) {
    socket_.send(zmq::buffer(request), zmq::send_flags::none);
    return answer();
  }
  std::string answer() {
    zmq::message_t reply;
    if (!socket_.recv(reply)) return "(nothing)";
    return reply.to_string();
  }
  /// With the empty frame that REQ would put in front.
  void send_ahead(const std::string& request) {
    socket_.send(zmq::message_t(), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(request), zmq::send_flags::none);
  }
  std::string answer_with_frame() {
    zmq::message_t empty;
    if (!socket_.recv(empty)) return "(nothing)";
    EXPECT_EQ(empty.size(), 0U);
    return answer();
  }

  PullFields pull(const std::string& key, std::uint64_t offset, std::uint64_t length) const {
    return {key, as_text(engine->desc().pack()), as_text(pool->desc().pack()), offset, length};
  }

  std::unique_ptr<IOEngine> engine;
  std::unique_ptr<EngineMemory> pool;

 private:
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  const int port_;
};

/// The original's sender: a ROUTER whose answers the test chooses. What is neither query nor pull, our hello
/// for one, it cannot read: trans_error.
class OriginalSender {
 public:
  /// nullopt: no answer, ever.
  using Answer = std::function<std::optional<std::string>(const std::string&)>;

  explicit OriginalSender(int wanted_port = 0) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind("tcp://127.0.0.1:" + (wanted_port == 0 ? "*" : std::to_string(wanted_port)));
    const std::string endpoint = socket_.get(zmq::sockopt::last_endpoint);
    port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
    thread_ = std::thread([this] { serve(); });
  }
  OriginalSender(const OriginalSender&) = delete;
  OriginalSender& operator=(const OriginalSender&) = delete;
  ~OriginalSender() {
    stop_ = true;
    thread_.join();
  }

  void answer_queries(Answer answer) { set(queries_, std::move(answer)); }
  void answer_pulls(Answer answer) { set(pulls_, std::move(answer)); }

  int port = 0;
  std::atomic<int> queries{0};
  std::atomic<int> pulls{0};

 private:
  void set(Answer& place, Answer answer) {
    const std::lock_guard lock(mutex_);
    place = std::move(answer);
  }

  void serve() {
    socket_.set(zmq::sockopt::rcvtimeo, 5);
    while (!stop_) {
      zmq::message_t caller;
      zmq::message_t empty;
      zmq::message_t request;
      if (!socket_.recv(caller)) continue;
      if (!socket_.recv(empty) || !socket_.recv(request)) continue;
      const std::optional<std::string> reply = answer_to(request.to_string());
      if (!reply) continue;
      socket_.send(caller, zmq::send_flags::sndmore);
      socket_.send(empty, zmq::send_flags::sndmore);
      socket_.send(zmq::buffer(*reply), zmq::send_flags::none);
    }
  }
  std::optional<std::string> answer_to(const std::string& request) {
    const bool query = request.starts_with("query_info");
    const bool pull = request.starts_with('\x85');
    if (!query && !pull) return silent ? std::nullopt : std::optional<std::string>("trans_error");
    ++(query ? queries : pulls);
    const std::lock_guard lock(mutex_);
    const Answer& answer = query ? queries_ : pulls_;
    return answer ? answer(request) : std::nullopt;
  }

 public:
  std::atomic<bool> silent{false};  ///< says nothing to what it cannot read

 private:
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::mutex mutex_;
  Answer queries_;
  Answer pulls_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The data plane of an original's sender: writes its bytes to where a pull says.
class OriginalWriter {
 public:
  explicit OriginalWriter(std::size_t size)
      : engine(testing_support::make_engine(testing_support::config_of("original-sender", "shm"))),
        source(testing_support::EnginePair::memory_of(*engine, size, Access::local_only)) {}

  Status write(const PullFields& pull, std::uint64_t from = 0) const {
    const auto peer = EngineDesc::unpack(std::as_bytes(std::span(pull.engine)));
    const auto memory = MemoryDesc::unpack(std::as_bytes(std::span(pull.memory)));
    if (!peer) return peer.error();
    if (!memory) return memory.error();
    if (Status known = engine->register_remote_engine(*peer); !known) return known;
    return engine->write(source->desc(), from, *memory, pull.offset, pull.length)->wait_for(kPatience);
  }

  std::unique_ptr<IOEngine> engine;
  std::unique_ptr<EngineMemory> source;
};

}  // namespace stagewire::compat
