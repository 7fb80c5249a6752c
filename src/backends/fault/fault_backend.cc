#include "backends/fault/fault_backend.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "backend/builtin_backends.hpp"
#include "base/text.hpp"

namespace stagewire::backends::fault {
namespace {

class FaultEndpoint final : public Endpoint {
 public:
  FaultEndpoint(FaultBackend& backend, std::unique_ptr<Endpoint> inner)
      : backend_(backend), inner_(std::move(inner)) {}
  std::optional<Status> status() const override { return inner_->status(); }
  Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) override {
    return inner_->import(remote_key);
  }
  Result<Posted> post(const WorkRequest& request) override {
    if (backend_.request_fails(request.id)) return Posted::pending;
    auto posted = inner_->post(request);
    if (posted && *posted == Posted::completed && !backend_.completed_at_once(request.id))
      return Posted::pending;
    return posted;
  }
  PayloadSlot reserve(std::size_t size) override { return inner_->reserve(size); }
  void abandon(const PayloadSlot& slot) override { inner_->abandon(slot); }
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) override {
    return inner_->send(message, slot, urgent);
  }

 private:
  FaultBackend& backend_;
  const std::unique_ptr<Endpoint> inner_;
};

MessagePayload copy_of(const MessagePayload& payload) {
  if (payload.empty()) return {};
  auto copy = std::make_shared<std::vector<std::byte>>(payload.bytes().begin(), payload.bytes().end());
  const std::span<const std::byte> bytes = *copy;
  return {bytes, std::move(copy), [](void*, std::uint32_t) {}, 0};
}

}  // namespace

EventSink::PeerToken FaultSink::on_peer_arrived(std::span<const std::byte> peer_address,
                                                std::string_view engine_key) {
  return outer_->on_peer_arrived(peer_address, engine_key);
}

void FaultSink::on_peer_lost(PeerToken peer, const Error& reason) {
  held_.deliver_all_of(*outer_, peer);
  outer_->on_peer_lost(peer, reason);
}

// Events that are neither delayed nor behind a delayed one pass straight through.
void FaultSink::pass(PeerToken peer, Fate fate, std::function<void(EventSink&)> deliver) {
  if (fate.drop) return;
  if (!fate.reorder && spec_.delay.count() == 0 && held_.empty()) return deliver(*outer_);
  held_.push({base::steady_clock().now() + spec_.delay, peer, std::move(deliver)}, fate.reorder);
}

void FaultSink::on_message(PeerToken peer, std::span<const std::byte> message, MessagePayload payload) {
  const Fate fate = message_dice_.next();
  // What std::function holds can be copied, a payload cannot.
  const auto deliver = [peer](std::vector<std::byte> bytes, MessagePayload carried) {
    return [peer, bytes = std::move(bytes), shared = std::make_shared<MessagePayload>(std::move(carried))](
               EventSink& sink) { sink.on_message(peer, bytes, std::move(*shared)); };
  };
  if (fate.duplicate) pass(peer, fate, deliver({message.begin(), message.end()}, copy_of(payload)));
  pass(peer, fate, deliver({message.begin(), message.end()}, std::move(payload)));
}

void FaultSink::on_notification(PeerToken peer, std::uint32_t notification) {
  const Fate fate = notification_dice_.next();
  const auto deliver = [peer, notification](EventSink& sink) { sink.on_notification(peer, notification); };
  if (fate.duplicate) pass(peer, fate, deliver);
  pass(peer, fate, deliver);
}

Fate FaultSink::completion_fate() {
  const std::lock_guard lock(completion_mutex_);
  return completion_dice_.next();
}

void FaultSink::on_completion(Completion&& completion) {
  pass(0, completion_fate(),
       [completion = std::move(completion)](EventSink& sink) { sink.on_completion(Completion(completion)); });
}

bool FaultSink::completed_at_once(std::uint64_t id) {
  const Fate fate = completion_fate();
  if (!fate.drop && !fate.reorder && spec_.delay.count() == 0) return true;
  if (fate.drop) return false;
  held_.push({base::steady_clock().now() + spec_.delay, 0,
              [id](EventSink& sink) {
                sink.on_completion({id, Status()});
              }},
             fate.reorder);
  return false;
}

FaultBackend::FaultBackend(const FaultSpec& spec, std::unique_ptr<Backend> inner)
    : spec_(spec), sink_(spec, held_), request_dice_(spec, 4), inner_(std::move(inner)) {}

Status FaultBackend::open() {
  if (Status status = wake_.open(); !status) return status;
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return base::system_error("timerfd_create", errno);
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return base::system_error("epoll_create1", errno);
  for (const int fd : {wake_.fd(), timer_.get(), inner_->wait_fd()}) {
    epoll_event event{};
    event.events = fd == inner_->wait_fd() ? EPOLLIN : EPOLLIN | EPOLLET;
    if (fd >= 0 && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return base::system_error("epoll_ctl(ADD)", errno);
    }
  }
  return {};
}

Result<std::unique_ptr<Endpoint>> FaultBackend::connect(std::span<const std::byte> peer_address) {
  auto inner = inner_->connect(peer_address);
  if (!inner) return inner;
  return std::unique_ptr<Endpoint>(std::make_unique<FaultEndpoint>(*this, std::move(*inner)));
}

std::size_t FaultBackend::progress(EventSink& sink, bool messages_only) {
  wake_.disarm();
  if (!messages_only) {
    // Edge-triggered ends of waits are taken note of here; what they announce is looked at anyway.
    epoll_event events[4];
    if (::epoll_wait(epoll_.get(), events, 4, 0) < 0) errno = 0;
  }
  sink_.set_outer(&sink);
  std::size_t count = inner_->progress(sink_, messages_only);
  if (!held_.empty()) count += held_.deliver_due(sink, base::steady_clock().now(), count > 0);
  return count;
}

bool FaultBackend::arm() {
  wake_.arm();
  if (const auto due = held_.next_due()) {
    const auto left = std::max(*due - base::steady_clock().now(), base::Duration(0));
    if (left.count() == 0) return false;
    itimerspec when{};
    when.it_value.tv_sec = left.count() / 1'000'000'000;
    when.it_value.tv_nsec = left.count() % 1'000'000'000;
    if (::timerfd_settime(timer_.get(), 0, &when, nullptr) != 0) return false;
  }
  return inner_->arm();
}

bool FaultBackend::request_fails(std::uint64_t id) {
  {
    const std::lock_guard lock(request_mutex_);
    if (!request_dice_.fails()) return false;
  }
  const auto deliver = [id](EventSink& sink) {
    sink.on_completion(
        {id, base::error(ErrorCode::failed, "request ", id, " was made to fail by fault_spec")});
  };
  held_.push({base::steady_clock().now() + spec_.delay, 0, deliver}, false);
  wake_.wake();
  return true;
}

bool FaultBackend::completed_at_once(std::uint64_t id) {
  const bool at_once = sink_.completed_at_once(id);
  if (!at_once) wake_.wake();
  return at_once;
}

}  // namespace stagewire::backends::fault

namespace stagewire::backends {

Result<std::unique_ptr<Backend>> create_fault(const BackendOptions& options) {
  auto spec = fault::FaultSpec::parse(options.fault_spec);
  if (!spec) return spec.error();
  auto inner = backend::create_backend(spec->over, options);
  if (!inner) return inner.error();
  auto backend = std::make_unique<fault::FaultBackend>(*spec, std::move(*inner));
  const Status opened = backend->open();
  if (!opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace stagewire::backends
