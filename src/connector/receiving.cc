// From "it is ready" to a delivery: the bytes came along (eager), are looked at in the sender's block
// (lease), or are copied out of it by us (read). Nobody else writes into our memory on any of these.
#include <algorithm>

#include "base/text.hpp"
#include "connector/space.hpp"
#include "connector/subscriptions.hpp"

namespace stagewire::connector {
namespace {

Milliseconds time_left(base::Deadline deadline) {
  if (deadline.is_never()) return Milliseconds::max();
  return std::chrono::ceil<Milliseconds>(deadline.left(base::steady_clock().now()));
}

}  // namespace

Result<Delivery> Subscriptions::receive(Taken taken, base::Deadline deadline) {
  if (taken.delivery) return counted(std::move(*taken.delivery));
  if (wish_ == RouteWish::write) {
    base::Event event;
    std::optional<Result<Delivery>> result;
    write_async(std::move(taken), deadline, [&](Result<Delivery> written) {
      result.emplace(std::move(written));
      event.set();
    });
    // Its own timer ends it at the deadline.
    core_->wait(event, base::Deadline::never());
    return std::move(*result);
  }
  auto region = sender_pool(taken);
  Status usable = region ? Status() : Status(region.error());
  if (usable) {
    base::Event mapped;
    when_mapped(taken, *region, deadline, [&](const Status& status) {
      usable = status;
      mapped.set();
    });
    core_->wait(mapped, base::Deadline::never());
  }
  if (usable) usable = check_bounds(taken, **region);
  if (!usable) {
    give_back(taken, false);
    return counted(usable.error().with_context(taken.key));
  }
  if (take_lease(taken, **region)) return counted(lease(taken, std::move(*region)));
  return read(taken, *region, deadline);
}

void Subscriptions::receive_async(Taken taken, base::Deadline deadline, Callback callback) {
  if (taken.delivery) return callback(counted(std::move(*taken.delivery)));
  if (wish_ == RouteWish::write) return write_async(std::move(taken), deadline, std::move(callback));
  auto region = sender_pool(taken);
  if (!region) {
    give_back(taken, false);
    return callback(counted(region.error().with_context(taken.key)));
  }
  const auto shared = std::make_shared<Taken>(std::move(taken));
  when_mapped(*shared, *region, deadline,
              [this, shared, region = *region, deadline, callback](const Status& mapped) {
                Status usable = mapped;
                if (usable) usable = check_bounds(*shared, *region);
                if (!usable) {
                  give_back(*shared, false);
                  callback(counted(usable.error().with_context(shared->key)));
                } else if (take_lease(*shared, *region)) {
                  callback(counted(lease(*shared, region)));
                } else {
                  read_async(std::move(*shared), region, deadline, callback);
                }
              });
}

Result<std::shared_ptr<RemoteRegion>> Subscriptions::sender_pool(const Taken& taken) {
  MemoryDesc pool;
  {
    const std::lock_guard lock(taken.peer->mutex);
    pool = taken.peer->pool;
  }
  if (pool.size == 0)
    return base::error(ErrorCode::corrupt, taken.peer->desc.key, " has not said where its pool is");
  return core_->import_region(*taken.peer, pool);
}

// A transfer of nothing ends when the region can be used, or never will be.
void Subscriptions::when_mapped(const Taken& taken, const std::shared_ptr<RemoteRegion>& region,
                                base::Deadline deadline, std::function<void(const Status&)> callback) {
  if (const auto status = region->status()) return callback(*status);
  engine::TransferImpl::Request request;
  request.local = region_;
  request.peer = taken.peer;
  request.remote = region;
  request.options.id = core_->allocate_transfer_id();
  request.options.timeout = time_left(deadline);
  request.what = "nothing, until the pool is mapped";
  const auto transfer = std::make_shared<engine::TransferImpl>(core_, std::move(request));
  transfer->on_end(std::move(callback));
  core_->submit(transfer, false);
}

Status Subscriptions::check_bounds(const Taken& taken, const RemoteRegion& region) {
  const wire::Ready& ready = taken.ready;
  if (ready.size <= region.size() && ready.offset <= region.size() - ready.size) return {};
  return base::error(ErrorCode::corrupt, taken.peer->desc.key, " names ", ready.size, " bytes at offset ",
                     ready.offset, " of its pool of ", region.size());
}

// The lease route pins the sender's memory, so only a share of its pool is used that way.
bool Subscriptions::take_lease(const Taken& taken, const RemoteRegion& region) {
  if (region.mapping() == nullptr || wish_ == RouteWish::read) return false;
  if (wish_ == RouteWish::lease) return true;
  std::uint64_t limit = 0;
  {
    const std::lock_guard lock(taken.peer->mutex);
    limit = taken.peer->hello.lease_limit;
  }
  const std::uint64_t held = leased_of(taken.peer.get())->load();
  return held <= limit && taken.ready.size <= limit - held;
}

std::shared_ptr<std::atomic<std::uint64_t>> Subscriptions::leased_of(engine::Peer* peer) {
  const std::lock_guard lock(mutex_);
  auto& count = leased_[peer];
  if (!count) count = std::make_shared<std::atomic<std::uint64_t>>(0);
  return count;
}

Delivery Subscriptions::lease(const Taken& taken, std::shared_ptr<RemoteRegion> region) {
  return Delivery(std::make_unique<LeaseHolder>(taken.ready, core_, taken.peer, std::move(region),
                                                leased_of(taken.peer.get())));
}

std::shared_ptr<engine::TransferImpl> Subscriptions::make_read(const Taken& taken,
                                                               const std::shared_ptr<RemoteRegion>& region,
                                                               memory::Pool::Offset block,
                                                               base::Deadline deadline) {
  engine::TransferImpl::Request request;
  request.operation = Operation::read;
  request.local = region_;
  request.peer = taken.peer;
  request.remote = region;
  request.segments.push_back({block, taken.ready.offset, taken.ready.size});
  request.options.id = core_->allocate_transfer_id();
  request.options.timeout = time_left(deadline);
  request.what = taken.key;
  return std::make_shared<engine::TransferImpl>(core_, std::move(request));
}

Result<Delivery> Subscriptions::read(const Taken& taken, const std::shared_ptr<RemoteRegion>& region,
                                     base::Deadline deadline) {
  auto block = allocate_block(*core_, *pool_, taken.ready.size, deadline);
  if (!block) {
    give_back(taken, false);
    return counted(block.error().with_context(taken.key));
  }
  pool_->grant(*block);
  const auto transfer = make_read(taken, region, *block, deadline);
  core_->submit(transfer, true);
  // The transfer's own timer ends it at the deadline.
  static_cast<void>(transfer->wait_for(Milliseconds::max()));
  return finish_read(taken, *block, *transfer);
}

void Subscriptions::read_async(Taken taken, const std::shared_ptr<RemoteRegion>& region,
                               base::Deadline deadline, Callback callback) {
  const std::uint64_t size = taken.ready.size;
  const auto shared = std::make_shared<Taken>(std::move(taken));
  const auto timer = core_->add_timer(deadline, [this] { pool_->expire(core_->clock().now()); });
  pool_->allocate_async(size, deadline,
                        [this, shared, region, deadline, callback = std::move(callback),
                         timer](Result<memory::Pool::Offset> got) {
                          core_->cancel_timer(timer);
                          if (!got) {
                            give_back(*shared, false);
                            return callback(counted(got.error().with_context(shared->key)));
                          }
                          const memory::Pool::Offset block = *got;
                          pool_->grant(block);
                          const auto transfer = make_read(*shared, region, block, deadline);
                          transfer->on_end([this, shared, block, callback, transfer](const Status&) {
                            callback(finish_read(*shared, block, *transfer));
                          });
                          core_->submit(transfer, false);
                        });
}

// A read that failed may still be moving bytes: its block is kept back until it has quiesced (R01).
Result<Delivery> Subscriptions::finish_read(const Taken& taken, memory::Pool::Offset block,
                                            engine::TransferImpl& transfer) {
  if (transfer.state() == TransferState::done) {
    pool_->end_grant(block);
    give_back(taken, true);
    return counted(Delivery(std::make_unique<BlockHolder>(
        Route::read, taken.ready, std::make_unique<PoolBuffer::Holder>(pool_, block, taken.ready.size))));
  }
  pool_->quarantine(block);
  transfer.on_quiet([pool = pool_, block] { pool->end_quarantine(block); });
  give_back(taken, false);
  return counted(*transfer.error());
}

void Subscriptions::give_back(const Taken& taken, bool consumed) {
  if (taken.peer && taken.ready.lease != 0)
    core_->send(*taken.peer, wire::Release{taken.ready.lease, consumed}, {}, !consumed);
}

Delivery Subscriptions::counted(Delivery delivery) {
  const std::lock_guard lock(mutex_);
  count(delivery);
  return delivery;
}

void Subscriptions::count(const Delivery& delivery) {
  ++counters_.gets;
  counters_.bytes += delivery.size();
  RouteCounters* const routes[] = {&counters_.eager, &counters_.lease, &counters_.read, &counters_.write};
  RouteCounters& route = *routes[static_cast<std::size_t>(delivery.route())];
  ++route.count;
  route.bytes += delivery.size();
}

Error Subscriptions::counted(const Error& error) {
  const std::lock_guard lock(mutex_);
  ++(error.code() == ErrorCode::timeout ? counters_.timeouts : counters_.errors);
  return error;
}

}  // namespace stagewire::connector
