#include "chunk_receiver.hpp"

#include <algorithm>
#include <map>

#include "chunk_rows.hpp"
#include "die.hpp"
#include "stagewire/chunk.hpp"
#include "yardsticks.hpp"

namespace stagewire::bench {
namespace {

class AdapterReceiver final : public ChunkReceiver {
 public:
  explicit AdapterReceiver(const Request& request) {
    ConnectorConfig config;
    config.stage_id = 1;
    config.role = Role::receiver;
    config.zmq_port = 0;
    config.memory_pool_size = request.pool_size;
    config.wait = static_cast<WaitStrategy>(request.wait);
    config.sender_host = "127.0.0.1";
    config.sender_zmq_port = request.port;
    connector_ = checked(Connector::create(config));
    ChunkAdapterOptions options;
    options.stage_id = 1;
    options.chunk_timeout = Milliseconds(0);
    adapter_ = checked(ChunkTransferAdapter::create(*connector_, nullptr, options));
  }

  void load(std::uint32_t stream, const std::string& id) override {
    streams_.emplace(id, stream);
    check(adapter_->load(id, id));
  }

  void take(const Take& take) override {
    if (!adapter_->wait(Milliseconds(kPatienceMs))) die("no chunk has come for 30 s");
    adapter_->take(events_);
    const double now = now_us();
    for (ChunkEvent& event : events_) {
      if (!event.chunk) die("the receiver: " + event.chunk.error().to_string());
      take(streams_.find(event.internal_id)->second, now, event.chunk->payload);
    }
    for (ChunkEvent& event : events_) event.chunk->delivery.release();
  }

  void finish(std::uint32_t, const std::string& id) override {
    adapter_->finish(id, id);
    streams_.erase(id);
  }
  std::uint64_t pool_free() override { return connector_->health().pool_free; }

 private:
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<ChunkTransferAdapter> adapter_;
  std::map<std::string, std::uint32_t, std::less<>> streams_;
  std::vector<ChunkEvent> events_;
};

}  // namespace

std::unique_ptr<ChunkReceiver> make_adapter_receiver(const Request& request) {
  return std::make_unique<AdapterReceiver>(request);
}

void ChunkPartner::open(const Request& request) {
  receiver_.reset();
  receiver_ = request.query_pull ? make_query_pull_receiver(request) : make_adapter_receiver(request);
  answer_({static_cast<double>(receiver_->pool_free())});
}

void ChunkPartner::load(const Request& request) {
  streams_.clear();
  for (std::uint32_t stream = 0; stream < request.streams; ++stream) {
    streams_.push_back({request_id(request.run, stream)});
    receiver_->load(stream, streams_.back().id);
  }
  answer_({});
}

// What comes next, whatever it is; streams that go on are loaded again at once.
void ChunkPartner::take(const std::function<void(double now, double stamp)>& note) {
  receiver_->take([&](std::uint32_t number, double now, const Value& payload) {
    Stream& stream = streams_.at(number);
    const RowsFound found = find_rows(payload);
    check_rows(payload, stream.next_row);
    stream.next_row += found.count;
    stream.ended = found.last;
    if (!found.last) receiver_->load(number, stream.id);
    note(now, found.stamp);
  });
}

void ChunkPartner::receive(const Request& request) {
  const std::size_t wanted = std::size_t{request.count} * streams_.size();
  std::vector<double> times{0};
  times.reserve(wanted + 1);
  while (times.size() <= wanted) {
    take([&](double now, double stamp) {
      times[0] = now;
      times.push_back(now - stamp);
      if (request.one_by_one) answer_({});
    });
  }
  if (times.size() > wanted + 1) die("more chunks have come than were sent");
  answer_(times);
}

void ChunkPartner::end() {
  while (!std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.ended; })) {
    take([](double, double) {});
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) receiver_->finish(i, streams_[i].id);
  answer_({static_cast<double>(receiver_->pool_free())});
}

}  // namespace stagewire::bench
