#include "connector/original_senders.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace stagewire::connector {
namespace {

// The original's own limits: what its receivers wait for an answer to a query, and more for a large pull.
constexpr base::Duration kQueryTimeout = std::chrono::seconds(5);
constexpr base::Duration kPullTimeoutPerStep = std::chrono::seconds(5);
constexpr std::uint64_t kPullTimeoutStep = 100ULL << 20U;

constexpr base::Duration kFirstPause = std::chrono::milliseconds(1);
constexpr base::Duration kLongestPause = std::chrono::milliseconds(50);

bool is(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() == text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace

base::Duration OriginalSenders::pull_timeout(std::uint64_t size) const {
  // What does not fit into the pool is refused for it; a size that a peer makes up must not overflow here.
  const std::uint64_t steps = std::min(size, subscriptions_.pool_->bytes().size()) / kPullTimeoutStep;
  return timeout_ + kPullTimeoutPerStep * static_cast<std::int64_t>(steps);
}

void OriginalSenders::start(const std::shared_ptr<Subscriptions::Wanted>& wanted) {
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[wanted->dial];
    const auto same = [&](const Call& call) { return call.wanted == wanted; };
    const bool known =
        std::any_of(line.queue.begin(), line.queue.end(), same) || (line.current && same(*line.current));
    if (!known) {
      Call call;
      call.wanted = wanted;
      line.queue.push_back(std::move(call));
    }
  }
  // Also for a known one: whoever answers here may have been away, and the queue stood still.
  subscriptions_.core_->run_on_loop([this, dial = wanted->dial] { pump(dial); });
}

void OriginalSenders::pump(const engine::DialPtr& dial) {
  {
    const std::lock_guard lock(dial->mutex);
    if (dial->state != engine::Dial::State::original) return;
  }
  while (true) {
    Call call;
    {
      const std::lock_guard lock(mutex_);
      Line& line = lines_[dial];
      if (line.current || line.queue.empty()) return;
      call = std::move(line.queue.front());
      line.queue.pop_front();
    }
    if (!still_wanted(call)) continue;
    const std::string key = call.wanted->key;
    set_current(dial, std::move(call), std::min(kQueryTimeout, timeout_));
    subscriptions_.core_->send_original(dial, wire::encode(wire::OriginalQuery{key}));
    return;
  }
}

void OriginalSenders::set_current(const engine::DialPtr& dial, Call call, base::Duration timeout) {
  engine::Core& core = *subscriptions_.core_;
  const std::lock_guard lock(mutex_);
  Line& line = lines_[dial];
  const std::uint64_t round = ++line.round;
  call.timer = core.add_timer(base::Deadline::after(timeout, core.clock()),
                              [this, dial, round] { request_timed_out(dial, round); });
  line.current = std::move(call);
}

std::optional<OriginalSenders::Call> OriginalSenders::take_current(const engine::DialPtr& dial,
                                                                   const Subscriptions::Wanted* of) {
  std::optional<Call> call;
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[dial];
    if (of != nullptr && (!line.current || line.current->wanted.get() != of)) return std::nullopt;
    call.swap(line.current);
  }
  if (call) subscriptions_.core_->cancel_timer(call->timer);
  return call;
}

bool OriginalSenders::still_wanted(const Call& call) {
  const std::lock_guard lock(subscriptions_.mutex_);
  return call.wanted->state == Subscriptions::State::waiting && !subscriptions_.closed_;
}

void OriginalSenders::fail(const Call& call, const Error& error) {
  const std::lock_guard lock(subscriptions_.mutex_);
  subscriptions_.fail(call.wanted, error);
}

void OriginalSenders::answer(const engine::DialPtr& dial, std::span<const std::byte> bytes) {
  std::optional<Call> call = take_current(dial);
  if (!call) return;
  if (call->stage == Stage::pull) {
    answer_to_pull(dial, *call, bytes);
  } else {
    answer_to_query(dial, std::move(*call), bytes);
  }
  pump(dial);
}

void OriginalSenders::answer_to_query(const engine::DialPtr& dial, Call call,
                                      std::span<const std::byte> bytes) {
  if (is(bytes, wire::kInfoNotFound)) {
    {
      const std::lock_guard lock(subscriptions_.mutex_);
      call.wanted->answered = true;
      call.wanted->waiters.set_all();
    }
    engine::Core& core = *subscriptions_.core_;
    call.pause = std::clamp(call.pause * 2, kFirstPause, kLongestPause);
    core.add_timer(base::Deadline::after(call.pause, core.clock()), [this, dial, call] {
      {
        const std::lock_guard lock(mutex_);
        lines_[dial].queue.push_back(call);
      }
      pump(dial);
    });
    return;
  }
  auto response = wire::decode_original_response(bytes);
  if (!response)
    return fail(call, response.error().with_context("answer of " + dial->name() + " to a query"));
  if (response->request_id != call.wanted->key || response->data_size == 0) {
    return fail(call, base::error(ErrorCode::corrupt, dial->name(), " answered a query with ",
                                  response->data_size, " bytes of ", response->request_id));
  }
  call.size = response->data_size;
  call.raw = response->is_fast_path;
  begin_pull(dial, std::move(call));
}

// The line stays occupied while the block is waited for: answers carry no name, so nothing else may be asked.
void OriginalSenders::begin_pull(const engine::DialPtr& dial, Call call) {
  call.stage = Stage::space;
  const std::uint64_t size = call.size;
  const base::Duration timeout = pull_timeout(size);
  set_current(dial, call, timeout);
  subscriptions_.pool_->allocate_async(
      size, base::Deadline::after(timeout), [this, dial, call](Result<memory::Pool::Offset> block) mutable {
        if (!block) {
          take_current(dial, call.wanted.get());
          return fail(call, block.error());
        }
        call.block = *block;
        subscriptions_.core_->run_on_loop([this, dial, call] { send_pull(dial, call); });
      });
}

void OriginalSenders::send_pull(const engine::DialPtr& dial, Call call) {
  if (!take_current(dial, call.wanted.get())) {  // timed out or disconnected meanwhile
    subscriptions_.pool_->free(call.block);
    return pump(dial);
  }
  const auto region = landing_for(dial);
  if (!region || !still_wanted(call)) {
    subscriptions_.pool_->free(call.block);
    if (!region) fail(call, region.error());
    return pump(dial);
  }
  subscriptions_.pool_->grant(call.block);
  call.stage = Stage::pull;
  const std::vector<std::byte> request = wire::encode(wire::OriginalPull{
      call.wanted->key, subscriptions_.core_->desc().pack(), region->pack(), call.block, call.size});
  const base::Duration timeout = pull_timeout(call.size);
  set_current(dial, std::move(call), timeout);
  subscriptions_.core_->send_original(dial, request);
}

void OriginalSenders::answer_to_pull(const engine::DialPtr& dial, const Call& call,
                                     std::span<const std::byte> bytes) {
  subscriptions_.pool_->end_grant(call.block);
  auto block = std::make_unique<PoolBuffer::Holder>(subscriptions_.pool_, call.block, call.size);
  if (!is(bytes, wire::kTransferDone)) {
    const std::string words =
        is(bytes, wire::kTransferError) ? "trans_error" : "something that is no answer to a pull";
    return fail(call, base::error(ErrorCode::failed, dial->name(), " answered the pull of ", call.size,
                                  " bytes with ", words));
  }
  wire::Ready ready;
  ready.size = call.size;
  ready.kind = call.raw ? wire::PayloadKind::bytes : wire::PayloadKind::object;
  Delivery delivery(std::make_unique<BlockHolder>(Route::write, ready, std::move(block)));
  const std::lock_guard lock(subscriptions_.mutex_);
  if (call.wanted->state != Subscriptions::State::waiting) {
    ++subscriptions_.counters_.late;
    return;
  }
  call.wanted->delivery = std::move(delivery);
  subscriptions_.settle(call.wanted);
}

void OriginalSenders::request_timed_out(const engine::DialPtr& dial, std::uint64_t round) {
  std::optional<Call> call;
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[dial];
    if (line.round != round || !line.current) return;
    call.swap(line.current);
  }
  give_up(dial, *call,
          base::error(ErrorCode::timeout, dial->name(), " has not answered a ",
                      call->stage == Stage::pull ? "pull" : "query"));
  // A late answer must not be taken for the next one's: another connection.
  subscriptions_.core_->redial(dial);
}

void OriginalSenders::disconnected(const engine::DialPtr& dial) {
  std::optional<Call> call = take_current(dial);
  if (!call) return;
  if (call->stage == Stage::query) {
    const std::lock_guard lock(mutex_);
    lines_[dial].queue.push_front(std::move(*call));  // asked again when somebody answers there
    return;
  }
  give_up(dial, *call, base::error(ErrorCode::unavailable, "lost ", dial->name(), " during a pull"));
}

Result<MemoryDesc> OriginalSenders::landing_for(const engine::DialPtr& dial) {
  const std::lock_guard lock(mutex_);
  Line& line = lines_[dial];
  if (!line.landing) {
    auto registered =
        subscriptions_.core_->register_region(subscriptions_.pool_->region(), Access::remote_write);
    if (!registered) return registered.error();
    line.landing = std::move(*registered);
  }
  return line.landing->desc;
}

void OriginalSenders::revoke_landing(const engine::DialPtr& dial) {
  std::shared_ptr<engine::LocalRegion> landing;
  {
    const std::lock_guard lock(mutex_);
    landing.swap(lines_[dial].landing);
  }
  // No transfer of ours names it, so nothing is waited for.
  if (landing) {
    static_cast<void>(subscriptions_.core_->deregister_region(landing->desc.id, base::Deadline::never()));
  }
}

// The writer may still be at it, or begin only now (R01). From here on nobody can reach the pool by what this
// sender was told; whoever has reached it before comes over a connection that stands now, and the block is
// kept until all of these are closed.
void OriginalSenders::give_up(const engine::DialPtr& dial, const Call& call, const Error& error) {
  if (call.stage == Stage::pull) {
    revoke_landing(dial);
    subscriptions_.pool_->quarantine(call.block);
    const std::lock_guard lock(subscriptions_.mutex_);
    subscriptions_.quarantine(call.block, subscriptions_.core_->connections());
  }
  fail(call, error);
}

}  // namespace stagewire::connector
