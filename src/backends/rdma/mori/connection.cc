#include "backends/rdma/mori/connection.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma::mori {
namespace {

constexpr std::uint32_t kSends = 512;

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

// --- Set-up: queue pairs, then the peer's, then both connected

void Connection::start() {
  run(&Connection::make_pairs, &Connection::register_pairs);
}

// `then` comes with the mutex held, unless the connection has ended.
void Connection::run(Status (Connection::*work)(), void (Connection::*then)()) {
  const Status queued = hub_.run_on_worker([self = shared_from_this(), work, then] {
    const Status done = (*self.*work)();
    const std::lock_guard lock(self->hub_.mutex);
    if (self->ended_) return;
    if (!done) return self->end(done.error());
    (*self.*then)();
    self->hub_.completions.nudge();
  });
  if (!queued) end(queued.error());
}

Status Connection::make_pairs() {
  std::vector<std::shared_ptr<Pair>> made;
  for (std::uint32_t i = 0; i < hub_.settings.queue_pairs; ++i) {
    auto pair = Pair::create(hub_.ports[0], kSends);
    if (!pair) return pair.error();
    made.push_back(std::move(*pair));
  }
  const std::lock_guard lock(hub_.mutex);
  if (ended_) return {};
  pairs_ = std::move(made);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    hub_.router.add(0, pairs_[i]->number(), shared_from_this(), i);
    hub_.arrivals.joined(peer_.key);
  }
  return {};
}

void Connection::register_pairs() {
  peer_pairs_.resize(pairs_.size());
  port_places_.resize(pairs_.size());
  unregistered_ = pairs_.size();
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    RegisterEndpoint question;
    question.engine_key = hub_.engine_key;
    question.places = places_;
    question.endpoint = pairs_[i]->handle();
    question.rail = 0;
    hub_.control->ask(peer_.host, peer_.port, question,
                      [self = shared_from_this(), i](const Result<Message>& answer) {
                        if (!self->ended_) self->registered(i, answer);
                      });
  }
}

void Connection::registered(std::size_t pair, const Result<Message>& answer) {
  if (!answer) return end(answer.error());
  const auto* theirs = std::get_if<RegisterEndpoint>(&*answer);
  if (theirs == nullptr) return end(Error(ErrorCode::corrupt, name() + " answered something else"));
  if (theirs->engine_key != peer_.key) {
    return end(base::error(ErrorCode::unavailable, name(), " is ", theirs->engine_key, " now"));
  }
  peer_pairs_[pair] = theirs->endpoint;
  auto place = std::find(peer_ports_.begin(), peer_ports_.end(), theirs->device);
  if (place == peer_ports_.end()) place = peer_ports_.insert(peer_ports_.end(), theirs->device);
  if (peer_ports_.size() > kMaxRails) {
    return end(base::error(ErrorCode::unsupported, name(), " spreads its queue pairs over more than ",
                           kMaxRails, " ports"));
  }
  port_places_[pair] = static_cast<std::size_t>(place - peer_ports_.begin());
  if (--unregistered_ == 0) run(&Connection::connect_pairs, &Connection::came_up);
}

// The peer's are connected already: it has answered. The connection may end meanwhile: its queue pairs stay
// until verbs have returned.
Status Connection::connect_pairs() {
  std::vector<std::pair<std::shared_ptr<Pair>, EndpointHandle>> work;
  {
    const std::lock_guard lock(hub_.mutex);
    for (std::size_t i = 0; i < pairs_.size(); ++i) work.emplace_back(pairs_[i], peer_pairs_[i]);
  }
  for (const auto& [pair, theirs] : work) {
    if (Status ok = pair->connect(theirs); !ok) return ok;
  }
  return {};
}

void Connection::came_up() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    lanes_.push_back({pairs_[i]->queue(), 0, port_places_[i]});
  }
  base::log(LogLevel::info, "mori", "connected with ", name(), " by ", pairs_.size(), " queue pairs");
  for (const auto& waiting : std::vector(imports_)) ask_keys(waiting);
}

// --- Regions

void Connection::import(const std::shared_ptr<Import>& import) {
  imports_.push_back(import);
  if (!lanes_.empty()) ask_keys(import);
}

void Connection::ask_keys(const std::shared_ptr<Import>& import) {
  import->unanswered = peer_ports_.size();
  for (std::size_t place = 0; place < peer_ports_.size(); ++place) {
    AskRegion question;
    question.engine_key = peer_.key;
    question.device = peer_ports_[place];
    question.id = import->desc.id;
    hub_.control->ask(peer_.host, peer_.port, question,
                      [self = shared_from_this(), import, place](const Result<Message>& answer) {
                        self->answered(import, place, answer);
                      });
  }
}

void Connection::answered(const std::shared_ptr<Import>& import, std::size_t place,
                          const Result<Message>& answer) {
  if (import->status) return;  // it has ended meanwhile
  const auto* region = answer ? std::get_if<AskRegion>(&*answer) : nullptr;
  Status found;
  if (!answer) {
    found = answer.error();
  } else if (region == nullptr || region->id != import->desc.id || region->device != peer_ports_[place]) {
    found = Error(ErrorCode::corrupt, name() + " answered something else");
  } else if (region->size == 0) {
    found = base::error(ErrorCode::not_found, name(), " has no region ", import->desc.id, " (any more)");
  } else if (region->size != import->desc.size || region->address != import->desc.data) {
    found = base::error(ErrorCode::not_found, "region ", import->desc.id, " of ", name(), " has ",
                        region->size, " bytes at ", region->address, ", the descriptor says ",
                        import->desc.size, " at ", import->desc.data, ": ask for its new descriptor");
  } else {
    import->keys[place] = region->remote_key;
    import->address = region->address;
    if (--import->unanswered > 0) return;
  }
  import->status = found;
  if (!found) std::erase(imports_, import);
  hub_.completions.nudge();
}

// --- Transfers

Result<Posted> Connection::post(const WorkRequest& request, const Import& import) {
  if (!import.status) return base::error(ErrorCode::invalid_argument, "the region is still being imported");
  if (!*import.status) return import.status->error();
  const auto& local = *static_cast<const Region*>(request.local);
  for (const Segment& s : request.segments) {
    if (inside(s.local_offset, s.size, local.memory().size) &&
        inside(s.remote_offset, s.size, import.desc.size))
      continue;
    return base::error(ErrorCode::invalid_argument, "a segment of ", s.size, " bytes at ", s.local_offset,
                       " of ", local.memory().size, " here and ", s.remote_offset, " of ", import.desc.size,
                       " there");
  }
  if (transfers_.full()) {
    starved_ = true;
    return Posted::full;
  }
  transfers_.add({request.id, request.operation, local.memory().data, local.local_keys(), import.address,
                  std::span(import.keys).first(peer_ports_.size()), request.segments, request.notification});
  pump();
  return Posted::pending;
}

void Connection::pump() {
  if (ended_) return;
  Status ok = transfers_.pump(lanes_);
  if (ok) return send_notifications();
  end(ok.error().with_context(name()));
}

// Over every queue pair, as MORI-IO does: the peer counts them.
Transfers::Moved Connection::notify_peer() {
  return [this](Transfers::Serial transfer, std::uint32_t id) {
    outstanding_[transfer % Transfers::kMost] = {pairs_.size(), pairs_.size(), id};
    to_notify_.push_back(transfer);
  };
}

void Connection::send_notifications() {
  while (!to_notify_.empty()) {
    const Transfers::Serial transfer = to_notify_.front();
    Outstanding& left = outstanding_[transfer % Transfers::kMost];
    while (left.unsent > 0) {
      const std::size_t index = pairs_.size() - left.unsent;
      if (pairs_[index]->queue()->room() == 0) return;
      const Notification notification{left.id, static_cast<std::int32_t>(index),
                                      static_cast<std::int32_t>(pairs_.size())};
      if (Status ok = pairs_[index]->notify(transfer, notification); !ok) {
        return end(ok.error().with_context(name()));
      }
      --left.unsent;
    }
    to_notify_.erase(to_notify_.begin());
  }
}

void Connection::on_sent(const ibv_wc& completion, std::size_t pair) {
  if (ended_ || lanes_.empty()) return;
  if (completion.status != IBV_WC_SUCCESS) {
    const std::string text =
        base::text(pairs_[pair]->port().verbs().wc_status_str(completion.status), " (",
                   static_cast<int>(completion.status), ", vendor error ", completion.vendor_err, ")");
    transfers_.blame(completion, name(), text);
    const bool deaf = completion.status == IBV_WC_RNR_RETRY_EXC_ERR;
    return end(base::error(ErrorCode::unavailable, name(), ": queue pair ", completion.qp_num, ": ", text,
                           deaf ? "; it takes no notifications (enable_notification is off there)" : ""));
  }
  const QueuePair::Posting posting = pairs_[pair]->queue()->take_completed();
  if (posting.frames == 0) {
    transfers_.part_ended(posting);
  } else if (--outstanding_[posting.transfer % Transfers::kMost].unacknowledged == 0) {
    transfers_.finish(posting.transfer, {});
  }
  pump();
  if (!transfers_.full() && std::exchange(starved_, false)) hub_.completions.nudge();
}

// The peer may use the queue pairs for transfers of its own.
void Connection::on_received(const ibv_wc& completion, std::size_t pair) {
  if (ended_) return;
  if (completion.status != IBV_WC_SUCCESS) {
    return end(base::error(ErrorCode::unavailable, name(), ": queue pair ", completion.qp_num, ": ",
                           pairs_[pair]->port().verbs().wc_status_str(completion.status)));
  }
  const auto notification = pairs_[pair]->take(completion);
  if (!notification) return end(notification.error().with_context(name()));
  hub_.arrivals.notified(peer_.key, *notification);
}

// --- The end

void Connection::end(const Error& reason) {
  if (std::exchange(ended_, true)) return;
  base::log(LogLevel::debug, "mori", name(), ": the connection has ended: ", reason.message());
  lanes_.clear();
  for (const auto& pair : pairs_) {
    hub_.router.remove(0, pair->number());
    hub_.arrivals.left(peer_.key, reason.message());
  }
  pairs_.clear();
  transfers_.fail_all(reason);
  for (const auto& import : imports_) {
    if (!import->status || import->status->ok()) import->status = reason;
  }
  imports_.clear();
  hub_.completions.nudge();
}

}  // namespace stagewire::backends::rdma::mori
