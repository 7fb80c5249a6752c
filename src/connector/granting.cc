// The receiving side of the write route between stagewire ends: we grant a block, the sender writes into it
// and says when no byte will come any more. Until then, or until the writer is known to be gone, the block is
// nobody else's.
#include "base/text.hpp"
#include "connector/subscriptions.hpp"

namespace stagewire::connector {

void Subscriptions::write_async(Taken taken, base::Deadline deadline, Callback callback) {
  auto region = landing_region();
  if (!region) {
    give_back(taken, false);
    return callback(counted(region.error().with_context(taken.key)));
  }
  const std::uint64_t size = taken.ready.size;
  const auto shared = std::make_shared<Taken>(std::move(taken));
  const auto expiry = core_->add_timer(deadline, [this] { pool_->expire(core_->clock().now()); });
  pool_->allocate_async(size, deadline,
                        [this, shared, deadline, callback = std::move(callback), expiry,
                         desc = (*region)->desc](Result<memory::Pool::Offset> got) {
                          core_->cancel_timer(expiry);
                          if (!got) {
                            give_back(*shared, false);
                            return callback(counted(got.error().with_context(shared->key)));
                          }
                          pool_->grant(*got);
                          const engine::PeerPtr peer = shared->peer;
                          const std::string key = shared->key;
                          wire::Pull pull;
                          {
                            const std::lock_guard lock(mutex_);
                            const std::uint64_t id = next_pull_++;
                            pull = {id, key, desc.pack(), *got, shared->ready.size};
                            Landing& landing = pulls_[id];
                            landing.taken = std::move(*shared);
                            landing.block = *got;
                            landing.callback = callback;
                            landing.timer =
                                core_->add_timer(deadline, [this, id] { pull_deadline_passed(id); });
                          }
                          core_->send(*peer, pull);
                        });
}

// Our pool a second time, for remote write: only peers that are granted a block ever get this key.
Result<std::shared_ptr<engine::LocalRegion>> Subscriptions::landing_region() {
  const std::lock_guard lock(mutex_);
  if (!landing_region_) {
    auto registered = core_->register_region(pool_->region(), Access::remote_write);
    if (!registered) return registered.error();
    landing_region_ = std::move(*registered);
  }
  return landing_region_;
}

void Subscriptions::pull_deadline_passed(std::uint64_t id) {
  Callback callback;
  engine::PeerPtr peer;
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex_);
    const auto place = pulls_.find(id);
    if (place == pulls_.end() || !place->second.callback) return;
    Landing& landing = place->second;
    callback.swap(landing.callback);
    peer = landing.taken.peer;
    pool_->quarantine(landing.block);
    error = base::error(ErrorCode::timeout, "write of ", landing.taken.key, " (", landing.taken.ready.size,
                        " bytes) by ", peer->desc.key,
                        " was not done in time; its block waits until the writer has stopped");
  }
  core_->send(*peer, wire::Cancel{id});
  callback(counted(*error));
}

void Subscriptions::on_pull_done(const engine::PeerPtr& peer, const wire::PullDone& done) {
  Landing landing;
  {
    const std::lock_guard lock(mutex_);
    const auto place = pulls_.find(done.id);
    if (place == pulls_.end() || place->second.taken.peer != peer) return;
    landing = std::move(place->second);
    pulls_.erase(place);
    core_->cancel_timer(landing.timer);
    if (!landing.callback) ++counters_.late;
  }
  if (!landing.callback) {
    pool_->end_quarantine(landing.block);
    return give_back(landing.taken, false);
  }
  pool_->end_grant(landing.block);
  auto block = std::make_unique<PoolBuffer::Holder>(pool_, landing.block, landing.taken.ready.size);
  give_back(landing.taken, done.code == 0);
  if (done.code == 0) {
    landing.callback(counted(
        Delivery(std::make_unique<BlockHolder>(Route::write, landing.taken.ready, std::move(block)))));
  } else {
    landing.callback(
        counted(base::error(static_cast<ErrorCode>(done.code), landing.taken.key, ": ", done.reason)));
  }
}

// With mutex_ held, and the block in quarantine.
void Subscriptions::quarantine(memory::Pool::Offset block, std::set<EventSink::PeerToken> suspects) {
  if (suspects.empty()) {
    pool_->end_quarantine(block);
  } else {
    quarantines_.push_back({block, std::move(suspects)});
  }
}

// With mutex_ held: nobody is to wait any more; the blocks stay in quarantine.
void Subscriptions::end_pulls(const Error& error) {
  for (auto& [id, landing] : pulls_) {
    if (!landing.callback) continue;
    pool_->quarantine(landing.block);
    core_->cancel_timer(landing.timer);
    core_->run_on_loop([callback = std::move(landing.callback),
                        reason = error.with_context(landing.taken.key)] { callback(reason); });
    landing.callback = nullptr;
  }
}

// With mutex_ held: nothing will be heard of this peer's writes any more. It may be lost to us while its
// connection stands: then it may still write.
void Subscriptions::writer_lost(engine::Peer* peer) {
  std::set<EventSink::PeerToken> suspects;
  if (const auto connection = core_->connection_of(*peer)) suspects.insert(*connection);
  for (auto pull = pulls_.begin(); pull != pulls_.end();) {
    if (pull->second.taken.peer.get() != peer) {
      ++pull;
      continue;
    }
    Landing landing = std::move(pull->second);
    pull = pulls_.erase(pull);
    core_->cancel_timer(landing.timer);
    if (landing.callback) {
      pool_->quarantine(landing.block);
      core_->run_on_loop(
          [callback = std::move(landing.callback), name = landing.taken.key, key = peer->desc.key] {
            callback(base::error(ErrorCode::unavailable, name, ": ", key, " was lost while it wrote"));
          });
    }
    quarantine(landing.block, suspects);
  }
}

}  // namespace stagewire::connector
