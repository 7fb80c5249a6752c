// The original's receiving scheme, spoken over a raw socket; docs/protocol.md shows the messages.
#include <zmq.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "chunk_receiver.hpp"
#include "die.hpp"
#include "stagewire/engine.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

constexpr std::size_t kPoolSize = 1 << 20;
constexpr std::chrono::milliseconds kPause{1};  // after a pass over all keys that found nothing

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class QueryPullReceiver final : public ChunkReceiver {
 public:
  explicit QueryPullReceiver(const Request& request)
      : engine_(checked(IOEngine::create({}))),
        pool_(checked(engine_->allocate(kPoolSize, Access::remote_write))),
        engine_desc_(engine_->desc().pack()),
        memory_desc_(pool_->desc().pack()),
        context_(zmq_ctx_new()),
        socket_(zmq_socket(context_, ZMQ_REQ)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &kPatienceMs, sizeof kPatienceMs);
    zmq_setsockopt(socket_, ZMQ_SNDTIMEO, &kPatienceMs, sizeof kPatienceMs);
    const std::string address = "tcp://127.0.0.1:" + std::to_string(request.port);
    if (zmq_connect(socket_, address.c_str()) != 0) die("zmq_connect to " + address);
  }
  QueryPullReceiver(const QueryPullReceiver&) = delete;
  QueryPullReceiver& operator=(const QueryPullReceiver&) = delete;
  ~QueryPullReceiver() override {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }

  void load(std::uint32_t stream, const std::string& id) override {
    if (next_chunk_.size() <= stream) next_chunk_.resize(stream + 1);
    const std::uint64_t chunk = next_chunk_[stream]++;
    waiting_.push_back({stream, id + "_0_" + std::to_string(chunk) + "@0_1"});
  }

  void take(const Take& take) override {
    const double give_up = now_us() + 1e3 * kPatienceMs;
    while (!pass(take)) {
      if (now_us() > give_up) die("no chunk has come for 30 s");
      std::this_thread::sleep_for(kPause);
    }
  }

  void finish(std::uint32_t stream, const std::string&) override { next_chunk_.at(stream) = 0; }
  std::uint64_t pool_free() override { return kPoolSize; }  // what was pulled is never kept

 private:
  struct Waiting {
    std::uint32_t stream;
    std::string key;
  };

  // Asks for each key once. Those that are loaded meanwhile have their turn in the next pass.
  bool pass(const Take& take) {
    bool found = false;
    for (Waiting& waiting : std::exchange(waiting_, {})) {
      const std::uint64_t size = query(waiting.key);
      if (size == 0) {
        waiting_.push_back(std::move(waiting));
        continue;
      }
      pull(waiting.key, size);
      const Value payload = checked(decode(pool_->bytes().first(size)));
      take(waiting.stream, now_us(), payload);
      found = true;
    }
    return found;
  }

  /// The payload's size, 0 when it is not there.
  std::uint64_t query(const std::string& key) {
    const std::string_view reply = ask("query_info", Value::Map{{"request_id", std::string_view(key)}});
    if (reply == "info_not_found") return 0;
    const Value info = checked(decode(as_bytes(reply)));
    const Value* const size = info.find("data_size");
    const auto* const number = size == nullptr ? nullptr : size->get_if<std::int64_t>();
    if (number == nullptr || *number <= 0 || *number > std::int64_t{kPoolSize}) {
      die("query-pull: no usable size of " + key);
    }
    return static_cast<std::uint64_t>(*number);
  }

  void pull(const std::string& key, std::uint64_t size) {
    const std::string_view reply =
        ask("", Value::Map{{"request_id", std::string_view(key)},
                           {"engine_desc_packed", std::span<const std::byte>(engine_desc_)},
                           {"mem_desc_packed", std::span<const std::byte>(memory_desc_)},
                           {"dst_offset", 0},
                           {"length", static_cast<std::int64_t>(size)}});
    if (reply != "trans_done")
      die("query-pull: the pull of " + key + " was answered with " + std::string(reply));
  }

  /// The answer is valid until the next question.
  std::string_view ask(std::string_view prefix, const Value& fields) {
    question_.resize(prefix.size() + checked(encoded_size(fields)));
    std::memcpy(question_.data(), prefix.data(), prefix.size());
    checked(encode(fields, std::span(question_).subspan(prefix.size())));
    if (zmq_send(socket_, question_.data(), question_.size(), 0) < 0)
      die("query-pull: the sender takes nothing");
    const int size = zmq_recv(socket_, answer_, sizeof answer_, 0);
    if (size < 0 || static_cast<std::size_t>(size) > sizeof answer_)
      die("query-pull: the sender does not answer");
    return {answer_, static_cast<std::size_t>(size)};
  }

  std::unique_ptr<IOEngine> engine_;
  std::unique_ptr<EngineMemory> pool_;
  const std::vector<std::byte> engine_desc_;
  const std::vector<std::byte> memory_desc_;
  void* const context_;
  void* const socket_;
  std::vector<Waiting> waiting_;
  std::vector<std::uint64_t> next_chunk_;  // of each stream
  std::vector<std::byte> question_;
  char answer_[4096];
};

}  // namespace

std::unique_ptr<ChunkReceiver> make_query_pull_receiver(const Request& request) {
  return std::make_unique<QueryPullReceiver>(request);
}

}  // namespace stagewire::bench
