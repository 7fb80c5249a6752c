#include "chunk/receiver.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "chunk/received_chunk.hpp"

namespace stagewire::chunk {
namespace {

constexpr std::size_t kMostSpare = 256;

}  // namespace

void Receiver::stop() {
  base::StringMap<std::unique_ptr<Stream>> streams;  // with what arrived, given back outside of the lock
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (const auto& entry : streams_) end(*entry.second);
  streams.swap(streams_);
  by_id_.clear();
  held_.clear();
  ready_.clear();
}

Status Receiver::load(std::string_view internal_id, std::string_view external_id) {
  bool ready = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return base::error(ErrorCode::closed, "load of ", internal_id, ": the adapter was closed");
    auto place = streams_.find(internal_id);
    if (place == streams_.end()) {
      auto made = std::make_unique<Stream>();
      made->internal_id = internal_id;
      made->external_id = external_id;
      made->id = ++last_id_;
      made->key.begin(external_id, edge_.from);
      by_id_.emplace(made->id, made.get());
      held_.push_back(made->id);
      place = streams_.emplace(made->internal_id, std::move(made)).first;
    }
    Stream& stream = *place->second;
    if (stream.external_id != external_id) {
      return base::error(ErrorCode::invalid_argument, "load of ", internal_id, " as ", external_id,
                         ": it is loading as ", stream.external_id);
    }
    if (stream.state == State::done || stream.state == State::failed) {
      return base::error(ErrorCode::closed, "load of ", internal_id, ": it has ",
                         stream.state == State::done ? "had its last chunk" : "failed");
    }
    if (stream.loading) return {};
    stream.loading = true;
    stream.loaded = base::steady_clock().now();
    if (stream.state == State::held) admit();
    if (stream.state == State::held) watch(stream);
    if (stream.state == State::idle) ask(stream);
    ready = stream.state == State::arrived;
    if (ready) ready_.push_back(stream.id);
  }
  if (ready) ready_signal_->raise();
  return {};
}

void Receiver::keep_memory(std::vector<ChunkEvent>& events) {
  const std::lock_guard taking_lock(taking_mutex_);
  for (ChunkEvent& event : events) {
    if (spare_payloads_.size() == kMostSpare) return;
    if (event.chunk && is_small(event.chunk->payload)) {
      spare_payloads_.push_back(std::move(event.chunk->payload));
    }
  }
}

Value Receiver::spare_payload() {
  if (spare_payloads_.empty()) return {};
  Value payload = std::move(spare_payloads_.back());
  spare_payloads_.pop_back();
  return payload;
}

void Receiver::take(std::vector<ChunkEvent>& events) {
  const std::lock_guard taking_lock(taking_mutex_);
  {
    const std::lock_guard lock(mutex_);
    taking_.clear();
    taking_.swap(ready_);
  }
  for (const bool failures : {true, false}) {
    for (const std::uint64_t id : taking_) take_one(id, failures, events);
  }
}

void Receiver::take_one(std::uint64_t id, bool failures, std::vector<ChunkEvent>& events) {
  std::optional<Result<Delivery>> arrived;
  std::string_view internal_id;
  std::int64_t index = 0;
  {
    const std::lock_guard lock(mutex_);
    Stream* const stream = find(id);
    if (stream == nullptr || !stream->arrived || stream->arrived->ok() == failures) return;
    arrived = std::exchange(stream->arrived, std::nullopt);
    internal_id = stream->internal_id;
    index = stream->next_chunk;
  }
  ChunkEvent event{
      internal_id, false,
      *arrived ? make_chunk(index, std::move(**arrived), spare_payload()) : Result<Chunk>(arrived->error())};
  if (received(id, event)) events.push_back(std::move(event));
}

// What the stream does after its next chunk, or error. False: the scheduler is not to see it.
bool Receiver::received(std::uint64_t id, ChunkEvent& event) {
  const std::lock_guard lock(mutex_);
  Stream* const stream = find(id);
  if (stream == nullptr) return false;  // given up meanwhile
  if (!event.chunk) {
    ++counters_.receive_errors;
    fail(*stream, event.chunk.error().code());
    admit();
    return true;
  }
  ++stream->next_chunk;
  if (edge_.mode == ChunkMode::generation && is_empty_step(*event.chunk)) {
    ++counters_.empty;
    ask(*stream);
    return false;
  }
  ++counters_.received;
  stream->loading = false;
  if (event.chunk->finished) {
    stream->state = State::done;
    release_place(*stream);
    admit();
  } else if (event.chunk->segment_finished) {
    // The next segment may be a long time coming. The sender is told who waits all the same.
    stream->state = State::idle;
    watch(*stream);
  } else {
    ask(*stream);
  }
  return true;
}

void Receiver::forget(std::string_view internal_id) {
  std::optional<Result<Delivery>> unwanted;  // given back outside of the lock
  const std::lock_guard lock(mutex_);
  const auto place = streams_.find(internal_id);
  if (place == streams_.end()) return;
  Stream& stream = *place->second;
  unwanted.swap(stream.arrived);
  end(stream);
  by_id_.erase(stream.id);
  streams_.erase(place);
  admit();
}

void Receiver::abort(std::string_view internal_id, std::string_view external_id) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_ && !streams_.contains(internal_id)) {
      ChunkKey key;
      key.begin(external_id, edge_.from);
      // Asked for and given up in one breath: so the sender hears of it.
      static_cast<void>(connector_.watch(edge_.from, edge_.to, key.at(0), {}));
      connector_.abandon_get(edge_.from, edge_.to, key.at(0));
    }
  }
  forget(internal_id);
}

void Receiver::count(ChunkCounters& counters) const {
  const std::lock_guard lock(mutex_);
  counters.received = counters_.received;
  counters.empty = counters_.empty;
  counters.receive_errors = counters_.receive_errors;
  counters.held = held_.size();
  for (const auto& entry : streams_) {
    if (entry.second->loading) ++counters.waiting;
  }
}

// --- With mutex_ held.

Receiver::Stream* Receiver::find(std::uint64_t id) {
  const auto place = by_id_.find(id);
  return place == by_id_.end() ? nullptr : place->second;
}

// Streams get their place in the window in the order of their first load, and keep it to their end.
void Receiver::admit() {
  while (!held_.empty() && (edge_.window == 0 || active_ < edge_.window)) {
    Stream* const stream = find(held_.front());
    held_.pop_front();
    if (stream == nullptr) continue;
    stream->active = true;
    ++active_;
    ask(*stream);
  }
}

void Receiver::release_place(Stream& stream) {
  if (std::exchange(stream.active, false)) --active_;
}

void Receiver::ask(Stream& stream) {
  stream.state = State::asked;
  base::Duration timeout = base::Duration::max();
  if (edge_.chunk_timeout > base::Duration::zero()) {
    const base::TimePoint since = stream.loading ? stream.loaded : base::steady_clock().now();
    timeout = base::Deadline::at(since + edge_.chunk_timeout).left(base::steady_clock().now());
  }
  GetOptions options;
  options.timeout = std::chrono::ceil<Milliseconds>(timeout);
  if (gets_++ == 0) self_ = shared_from_this();
  // Small enough to fit into the function object.
  const Status asked =
      connector_.get_async(edge_.from, edge_.to, stream.key.at(stream.next_chunk), options,
                           [this, id = stream.id](Result<Delivery> result) { got(id, std::move(result)); });
  if (asked) return;
  if (--gets_ == 0) self_.reset();  // the caller has it, too
  settle(stream, asked.error());
}

// Tells the sender who will want the next chunk. If that fails, so does the get that follows.
void Receiver::watch(Stream& stream) {
  static_cast<void>(connector_.watch(edge_.from, edge_.to, stream.key.at(stream.next_chunk), {}));
}

// On a thread of the connector.
void Receiver::got(std::uint64_t id, Result<Delivery> result) {
  std::optional<Result<Delivery>> late;  // given back outside of the lock
  std::shared_ptr<Receiver> self;
  bool ready = false;
  {
    const std::lock_guard lock(mutex_);
    self = self_;
    if (--gets_ == 0) self_.reset();
    Stream* const stream = find(id);
    if (stream == nullptr || stream->state != State::asked) {
      late.emplace(std::move(result));
    } else if (!result && result.error().code() == ErrorCode::timeout && !timed_out(*stream)) {
      ask(*stream);  // nobody has waited that long
    } else {
      settle(*stream, std::move(result));
      ready = !ready_.empty();
    }
  }
  if (ready) ready_signal_->raise();
}

bool Receiver::timed_out(const Stream& stream) const {
  return stream.loading &&
         base::Deadline::at(stream.loaded + edge_.chunk_timeout).passed(base::steady_clock().now());
}

void Receiver::settle(Stream& stream, Result<Delivery> result) {
  const bool tell = stream.loading || !result;
  stream.state = State::arrived;
  stream.arrived.emplace(std::move(result));
  if (tell) ready_.push_back(stream.id);
}

// The sender is told that no more is wanted, unless it has sent all.
void Receiver::end(Stream& stream) {
  if (stream.state == State::held) std::erase(held_, stream.id);
  if (stream.state != State::done && stream.state != State::failed) abandon(stream);
  release_place(stream);
  stream.state = State::failed;
}

void Receiver::fail(Stream& stream, ErrorCode reason) {
  // These are what the sender said, or what there is nobody to hear of.
  const bool told =
      reason == ErrorCode::cancelled || reason == ErrorCode::unavailable || reason == ErrorCode::closed;
  if (!told) abandon(stream);
  release_place(stream);
  stream.loading = false;
  stream.state = State::failed;
}

void Receiver::abandon(Stream& stream) {
  connector_.abandon_get(edge_.from, edge_.to, stream.key.at(stream.next_chunk));
}

}  // namespace stagewire::chunk
