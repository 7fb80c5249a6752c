#include "backends/rdma/mori/acceptor.hpp"

#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {

/// A queue pair that a peer has asked for.
class Acceptor::Accepted final : public PairOwner, public std::enable_shared_from_this<Accepted> {
 public:
  Accepted(Hub& hub, std::string key, std::size_t port, std::unique_ptr<Pair> pair)
      : hub_(hub), key_(std::move(key)), port_(port), pair_(std::move(pair)) {}

  void begin() {
    hub_.router.add(port_, pair_->number(), shared_from_this(), 0);
    hub_.arrivals.joined(key_);
    heard_ = base::steady_clock().now();
  }
  const Pair& pair() const { return *pair_; }
  bool ended() const { return pair_ == nullptr; }

  void end(const std::string& why) {
    if (ended()) return;
    base::log(LogLevel::debug, "mori", key_, ": queue pair ", pair_->number(), " has ended: ", why);
    hub_.router.remove(port_, pair_->number());
    pair_.reset();
    hub_.arrivals.left(key_, why);
    hub_.completions.nudge();
  }

  void tick(base::TimePoint now) {
    if (ended() || probing_ || now - heard_ < kSilence) return;
    probing_ = true;
    if (Status ok = pair_->probe(); !ok) end(ok.error().message());
  }

  void on_sent(const ibv_wc& completion, std::size_t) override {
    if (ended()) return;
    if (completion.status != IBV_WC_SUCCESS) return fail(completion);
    static_cast<void>(pair_->queue()->take_completed());
    probing_ = false;
    heard_ = base::steady_clock().now();
  }

  void on_received(const ibv_wc& completion, std::size_t) override {
    if (ended()) return;
    if (completion.status != IBV_WC_SUCCESS) return fail(completion);
    heard_ = base::steady_clock().now();
    const auto notification = pair_->take(completion);
    if (!notification) return end(notification.error().message());
    hub_.arrivals.notified(key_, *notification);
  }

 private:
  void fail(const ibv_wc& completion) { end(pair_->port().verbs().wc_status_str(completion.status)); }

  Hub& hub_;
  const std::string key_;
  const std::size_t port_;
  std::unique_ptr<Pair> pair_;
  base::TimePoint heard_{};
  bool probing_ = false;
};

void Acceptor::asked(Control::Question question, const Message& message) {
  if (const auto* endpoint = std::get_if<RegisterEndpoint>(&message)) {
    accept(question, *endpoint);
  } else {
    tell_region(question, std::get<AskRegion>(message));
  }
}

void Acceptor::refuse(Control::Question question, const Error& reason) {
  if (const auto held = refused_log_.admit(base::steady_clock().now())) {
    base::log(LogLevel::warning, "mori", "refused: ", reason.message(), "; ", *held, " such lines held back");
  }
  hub_.control->refuse(question);
}

void Acceptor::accept(Control::Question question, const RegisterEndpoint& theirs) {
  if (accepted_.size() + under_way_ >= kMost) {
    return refuse(question, base::error(ErrorCode::exhausted, theirs.engine_key,
                                        " asks for a queue pair; there are ", accepted_.size(), " already"));
  }
  // On InfiniBand everybody has a LID, on Ethernet nobody.
  const std::size_t port = hub_.port_for(theirs.rail, theirs.endpoint.lid == 0);
  const Status queued = hub_.run_on_worker([this, question, theirs, port] {
    auto pair = Pair::create(hub_.ports[port], 4);
    const Status connected = pair ? (*pair)->connect(theirs.endpoint) : Status(pair.error());
    const std::lock_guard lock(hub_.mutex);
    --under_way_;
    hub_.completions.nudge();
    if (!connected) return refuse(question, connected.error().with_context(theirs.engine_key));
    RegisterEndpoint ours = theirs;
    ours.engine_key = hub_.engine_key;
    ours.device = static_cast<std::uint32_t>(port);
    ours.endpoint = (*pair)->handle();
    ours.nic_rank = 0;
    ours.rail = static_cast<int>(port);
    auto accepted = std::make_shared<Accepted>(hub_, theirs.engine_key, port, std::move(*pair));
    accepted->begin();
    accepted_[next_++] = std::move(accepted);
    hub_.control->answer(question, ours);
  });
  if (!queued) return refuse(question, queued.error());
  ++under_way_;
}

// MORI-IO's word for "no" is a region of no bytes.
void Acceptor::tell_region(Control::Question question, const AskRegion& asked) {
  AskRegion answer = asked;
  answer.address = answer.size = 0;
  answer.local_key = answer.remote_key = 0;
  const auto known = hub_.regions.find(asked.id);
  if (asked.engine_key == hub_.engine_key && known != hub_.regions.end() &&
      asked.device < hub_.ports.size()) {
    const Region& region = *known->second;
    answer.address = reinterpret_cast<std::uintptr_t>(region.memory().data);
    answer.remote_key = region.remote_key(asked.device);
    answer.size = region.memory().size;
  } else {
    base::log(LogLevel::debug, "mori", "somebody asks for region ", asked.id, " of ", asked.engine_key,
              " on port ", asked.device, ": there is none");
  }
  hub_.control->answer(question, answer);
}

void Acceptor::tick(base::TimePoint now) {
  for (auto it = accepted_.begin(); it != accepted_.end();) {
    it->second->tick(now);
    it = it->second->ended() ? accepted_.erase(it) : std::next(it);
  }
}

void Acceptor::end_all(const Error& reason) {
  for (const auto& entry : accepted_) entry.second->end(reason.message());
  accepted_.clear();
}

}  // namespace stagewire::backends::rdma::mori
