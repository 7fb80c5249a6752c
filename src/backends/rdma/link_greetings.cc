// How both ends of a link come to their queue pairs: the worker makes them, greetings tell the other end.
#include <algorithm>

#include "backends/rdma/link.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

// Between two greetings that were not answered: doubles from the first to the last.
constexpr base::Duration kFirstCall = std::chrono::milliseconds(50);
constexpr std::uint32_t kCallDoublings = 4;
// So many greetings over one pair of ports, then the next pair has its turn.
constexpr std::uint32_t kCallsOfAttempt = 5;
constexpr base::Duration kLongestProbe = std::chrono::minutes(1);
constexpr base::Duration kRetry = std::chrono::milliseconds(200);

base::TimePoint now() {
  return base::steady_clock().now();
}

}  // namespace

// The caller's.
void Link::begin_attempt() {
  ++attempt_;
  calls_ = 0;
  const Settings& settings = host_.settings;
  const auto is_active = [this](std::size_t port) { return host_.ports[port]->active(); };
  const Ways::Choice choice = ways_.choose(settings.rails, now(), is_active);
  way_of_ = {choice.frames};
  for (std::uint32_t i = 0; i < settings.queue_pairs; ++i) {
    for (const Way& way : choice.data) {
      if (way_of_.size() < kMaxQueuePairs) way_of_.push_back(way);
    }
  }
  missing_ = choice.missing;
  prepare_later();
}

// Of the one that is called; the backend has looked at their bounds.
void Link::take_ways(const Call& call) {
  attempt_ = call.attempt;
  way_of_.clear();
  for (std::size_t i = 0; i < call.rails.size(); ++i)
    way_of_.push_back({call.rails[i], call.caller_rails[i]});
}

void Link::prepare_later() {
  phase_ = Phase::preparing;
  const Status queued = run_on_worker([attempt = attempt_](Link& link) { link.prepare(attempt); });
  if (!queued) retry(queued.error());
}

Status Link::run_on_worker(std::function<void(Link&)> work) {
  class Task final : public backend::Worker::Job {
   public:
    Task(std::shared_ptr<Link> link, std::function<void(Link&)> task)
        : Job(link.get()), link_(std::move(link)), work_(std::move(task)) {}
    bool step() override {
      work_(*link_);
      return true;
    }
    void abandon() override {}

   private:
    const std::shared_ptr<Link> link_;
    const std::function<void(Link&)> work_;
  };
  std::unique_ptr<backend::Worker::Job> task = std::make_unique<Task>(shared_from_this(), std::move(work));
  const auto pushed = host_.worker.push(task);
  if (!pushed) return pushed.error();
  if (*pushed) return {};
  return base::error(ErrorCode::exhausted, "too many links are being set up at once");
}

void Link::retry(const Error& reason) {
  if (trouble_ != reason.message()) {
    base::log(LogLevel::debug, "rdma", peer_name(), ": ", reason.message());
  }
  trouble_ = reason.message();
  phase_ = Phase::retrying;
  retry_at_ = now() + kRetry;
  wants_attention();
}

// On the worker: makes the queue pairs of this attempt; the one that was called connects them, too.
void Link::prepare(std::uint32_t attempt) {
  std::vector<Way> ways;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::preparing || attempt_ != attempt) return;
    dying_
        .clear();  // from here on they move no byte; with the lock held, so that close() finds none that may
    const std::size_t transfers = transfers_.count();
    transfers_.finish_blamed();
    note_ended(transfers);
    ways = way_of_;
  }
  Status done = memory_->register_with(host_.ports[ways[0].port]);
  if (done) {
    auto pairs = make_pairs(ways);
    if (!pairs) {
      done = pairs.error();
    } else {
      if (!install(attempt, std::move(*pairs))) return;
      if (!caller_) done = connect_pairs(attempt);
    }
  }
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::preparing || attempt_ != attempt) return;
  if (!done) {
    const auto code = static_cast<std::uint32_t>(done.error().code());
    if (!caller_) greet(Refusal{peer_link_, attempt_, code, done.error().message()});
    return retry(done.error());
  }
  phase_ = caller_ ? Phase::calling : Phase::waiting;
  next_call_ = now();
  if (!caller_) greet(Answer{peer_link_, attempt_, own_end()});
  wants_attention();
}

Result<std::vector<std::shared_ptr<QueuePair>>> Link::make_pairs(const std::vector<Way>& ways) const {
  std::vector<std::shared_ptr<QueuePair>> pairs;
  for (const Way& way : ways) {
    const PortLimits& limits = host_.ports[way.port]->limits();
    const auto depth = [&](std::uint32_t wanted) {
      return std::min(wanted, static_cast<std::uint32_t>(std::max(1, limits.work_requests)));
    };
    // Frames, and a probe of an idle link.
    const QueuePair::Depth frames{depth(memory_->outbound().buffers + 1), depth(memory_->inbound().buffers),
                                  3};
    const QueuePair::Depth data{depth(256), 1, Transfers::segments_of(limits)};
    auto pair = QueuePair::create(host_.ports[way.port], pairs.empty() ? frames : data);
    if (!pair) return pair.error();
    pairs.push_back(std::move(*pair));
  }
  return pairs;
}

// False when they are not wanted any more.
bool Link::install(std::uint32_t attempt, std::vector<std::shared_ptr<QueuePair>> pairs) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::preparing || attempt_ != attempt) return false;
  pairs_ = std::move(pairs);
  sequence_ = static_cast<std::uint32_t>(random_number()) & 0xffffff;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    host_.router.add(way_of_[i].port, pairs_[i]->number(), shared_from_this(), i);
  }
  posted_receives_ = 0;
  for (std::uint32_t i = 0; i < held_.size(); ++i) {
    if (held_[i]) continue;
    if (Status ok = post_receive(i); !ok) {
      retry(ok.error());
      return false;
    }
  }
  return true;
}

// On the worker. The link may end meanwhile: its queue pairs stay until verbs have returned.
Status Link::connect_pairs(std::uint32_t attempt) {
  std::vector<std::pair<std::shared_ptr<QueuePair>, QueuePair::Remote>> work;
  std::uint32_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    if (attempt_ != attempt || peer_end_.pairs.size() != pairs_.size()) {
      return base::error(ErrorCode::invalid_argument, "the peer has ", peer_end_.pairs.size(),
                         " queue pairs for this link, not ", pairs_.size());
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      work.push_back(
          {pairs_[i],
           {peer_.rails[way_of_[i].rail], peer_end_.pairs[i], peer_end_.sequence, peer_end_.reads}});
    }
    sequence = sequence_;
  }
  for (auto& [pair, remote] : work) {
    if (Status ok = pair->connect(remote, sequence); !ok) return ok;
  }
  return {};
}

LinkEnd Link::own_end() const {
  LinkEnd end;
  end.link = id_;
  for (const auto& pair : pairs_) end.pairs.push_back(pair->number());
  end.sequence = sequence_;
  end.buffers = memory_->inbound().buffers;
  end.message_size = memory_->inbound().message_size;
  end.payload_size = memory_->inbound().payload_size;
  end.payloads = memory_->inbound().payloads;
  end.reads = port().limits().reads_served;
  for (const Way& way : way_of_) {
    end.reads = std::min<std::uint32_t>(end.reads, host_.ports[way.port]->limits().reads_served);
  }
  end.frames_received = frames_received_;
  end.frames_freed = freed_frames_;
  end.payloads_freed = freed_payloads_;
  return end;
}

// A datagram: one that cannot be sent now is like one that is lost.
void Link::greet_over(const Way& way, Greeting greeting) {
  host_.greetings.fetch_add(1);
  const auto queued =
      run_on_worker([greeting = std::move(greeting), port = way.port, rail = way.rail](Link& link) {
        const Status sent = link.host_.greeters[port]->send(link.peer_.rails[rail], pack(greeting));
        link.host_.greetings.fetch_sub(1);
        if (sent) return;
        const std::lock_guard lock(link.mutex_);
        link.trouble_ = sent.error().message();
      });
  if (!queued) host_.greetings.fetch_sub(1);
}

void Link::call_peer(base::TimePoint time) {
  if (calls_ == kCallsOfAttempt) {
    calls_ = 0;
    if (trouble_.empty()) trouble_ = "no answer";
    static_cast<void>(run_on_worker([port = way_of_[0].port, rail = way_of_[0].rail](Link& link) {
      link.host_.greeters[port]->forget(link.peer_.rails[rail]);
    }));
    if (ways_.count() > 1) {
      ways_.note_dead(way_of_[0], time);
      drop_pairs();
      return begin_attempt();
    }
  }
  next_call_ = time + kFirstCall * (1 << std::min(calls_, kCallDoublings));
  ++calls_;
  Call call;
  call.secret = peer_.secret;
  call.attempt = attempt_;
  for (const Way& way : way_of_) {
    call.rails.push_back(static_cast<std::uint32_t>(way.rail));
    call.caller_rails.push_back(static_cast<std::uint32_t>(way.port));
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(host_.address.data());
  call.address.assign(data, data + host_.address.size());
  call.end = own_end();
  greet(std::move(call));
}

// What the other end says of itself; it may be a hostile one.
Status Link::accept_end(const LinkEnd& end) {
  if (peer_end_.link != 0 && end.link != peer_end_.link) {
    return base::error(ErrorCode::unavailable, peer_name(), ": the peer has given up this link");
  }
  const std::uint64_t sent = frames_acknowledged_ + unacknowledged_.size();
  if (end.frames_received > sent || end.frames_received < frames_acknowledged_) {
    return base::error(ErrorCode::corrupt, peer_name(), ": the peer has received ", end.frames_received,
                       " frames of ", sent, " that were sent, ", frames_acknowledged_,
                       " of them acknowledged");
  }
  if (Status ok = note_freed(end.frames_freed, end.payloads_freed); !ok) return ok;
  peer_end_ = end;
  return {};
}

void Link::on_answer(const Answer& answer) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::calling || answer.attempt != attempt_) return;  // a late one, or one that came twice
  if (Status ok = accept_end(answer.end); !ok) return end(ok.error());
  phase_ = Phase::connecting;
  const Status queued = run_on_worker([attempt = attempt_](Link& link) {
    const Status connected = link.connect_pairs(attempt);
    const std::lock_guard work_lock(link.mutex_);
    if (link.phase_ != Phase::connecting || link.attempt_ != attempt) return;
    if (!connected) return link.retry(connected.error());
    link.came_up();
  });
  if (!queued) retry(queued.error());
}

void Link::on_refusal(const Refusal& refusal) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::calling || refusal.attempt != attempt_) return;
  retry(base::error(ErrorCode::unavailable, "the peer answered: ", refusal.text));
}

// Of the one that is called: the answer takes the way of the question.
void Link::on_probe(const Probe& probe) {
  const std::lock_guard lock(mutex_);
  if (caller_ || phase_ != Phase::up) return;
  if (probe.rail >= host_.ports.size() || probe.caller_rail >= peer_.rails.size()) return;
  greet_over({probe.rail, probe.caller_rail}, Reached{peer_link_});
}

// A way is good again for datagrams. Should it not be for more, the next one is believed later.
void Link::on_reached() {
  const std::lock_guard lock(mutex_);
  if (!caller_ || phase_ != Phase::up || missing_.empty()) return;
  probe_pause_ = std::min<base::Duration>(2 * probe_pause_, kLongestProbe);
  ways_.forgive();
  break_off(base::error(ErrorCode::unavailable, "a better way to the peer is there again"));
}

void Link::probe_missing(base::TimePoint time) {
  next_probe_ = time + probe_pause_;
  for (const Way& way : missing_) {
    if (!host_.ports[way.port]->active()) continue;
    greet_over(way, Probe{peer_end_.link, static_cast<std::uint32_t>(way.rail),
                          static_cast<std::uint32_t>(way.port)});
  }
}

// The one that is called: a greeting for queue pairs that it has not got yet.
void Link::on_call(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::ended) return;
  if (call.attempt < attempt_) return;
  if (call.attempt == attempt_ && phase_ == Phase::waiting) {
    return greet(Answer{peer_link_, attempt_, own_end()});  // the one before was lost, or is on its way
  }
  const bool failed_before = phase_ == Phase::draining && pairs_.empty();
  if (call.attempt == attempt_ && !failed_before) return;
  next_call_received_ = call;
  if (attempt_ > 0) return break_off(base::error(ErrorCode::unavailable, "the peer renews the link"));
  phase_ = Phase::draining;  // there is nothing to drain: tick() goes on at once
  deadline_ = now() + host_.settings.recovery;
  wants_attention();
}

}  // namespace stagewire::backends::rdma
