// The sending side of the write route: a receiver grants a place and the bytes are written into it. It is how
// the original's receivers take a payload, and how stagewire's do when `route: write` asks for it.
#include "base/text.hpp"
#include "connector/publications.hpp"

namespace stagewire::connector {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

// No clock bounds a write that a receiver has granted: the receiver cancels it, or is lost.
constexpr Milliseconds kNoTimeout = Milliseconds::max();

}  // namespace

// With the mutex held.
Result<std::shared_ptr<engine::TransferImpl>> Publications::make_write(const engine::PeerPtr& peer,
                                                                       std::span<const std::byte> memory,
                                                                       const Entry& entry,
                                                                       std::uint64_t offset) {
  const auto target = MemoryDesc::unpack(memory);
  if (!target) return target.error();
  if (entry.size > target->size || offset > target->size - entry.size) {
    return base::error(ErrorCode::invalid_argument, entry.size, " bytes at offset ", offset,
                       " lie outside of region ", target->id, " of ", target->engine_key, " (", target->size,
                       " bytes)");
  }
  if (!allows_write(target->access) && target->instance_id != 0) {
    return base::error(ErrorCode::permission, "region ", target->id, " of ", target->engine_key,
                       " was not registered for remote write");
  }
  auto region = core_->import_region(*peer, *target);
  if (!region) return region.error();
  engine::TransferImpl::Request request;
  request.operation = Operation::write;
  request.local = region_;
  request.peer = peer;
  request.remote = std::move(*region);
  request.segments.push_back({entry.block, offset, entry.size});
  request.options.id = core_->allocate_transfer_id();
  request.options.timeout = kNoTimeout;
  request.what = base::text("region ", target->id);
  return std::make_shared<engine::TransferImpl>(core_, std::move(request));
}

void Publications::on_pull(const engine::PeerPtr& peer, wire::Pull pull) {
  std::shared_ptr<engine::TransferImpl> transfer;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(pull.key);
    if (entry == entries_.end()) {
      status = base::error(ErrorCode::not_found, pull.key, " is not published here");
    } else if (entry->second.size != pull.size) {
      status = base::error(ErrorCode::invalid_argument, pull.key, " has ", entry->second.size,
                           " bytes, the pull names ", pull.size);
    } else if (auto made = make_write(peer, pull.memory, entry->second, pull.offset); made) {
      transfer = std::move(*made);
      pool_->pin(entry->second.block);
      ++entry->second.readers;
      writes_[{peer.get(), pull.id}] = Write{transfer, std::string(pull.key), entry->second.block};
    } else {
      status = made.error();
    }
  }
  if (!transfer) {
    core_->send(*peer, wire::PullDone{pull.id, static_cast<std::uint32_t>(status.error().code()),
                                      status.error().message()});
    return;
  }
  transfer->on_quiet([this, peer, id = pull.id, raw = transfer.get()] {
    pull_ended(peer, id, raw->state() == TransferState::done ? Status() : Status(*raw->error()));
  });
  core_->submit(transfer, false);
}

void Publications::pull_ended(const engine::PeerPtr& peer, std::uint64_t id, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    const auto write = writes_.find({peer.get(), id});
    if (write == writes_.end()) return;
    const Write ended = std::move(write->second);
    writes_.erase(write);
    // The lease that the receiver holds besides says whether the payload was taken.
    reader_left(ended.key, ended.block, false);
  }
  core_->send(*peer, status ? wire::PullDone{id, 0, {}}
                            : wire::PullDone{id, static_cast<std::uint32_t>(status.error().code()),
                                             status.error().message()});
}

void Publications::on_cancel(const engine::PeerPtr& peer, const wire::Cancel& cancel) {
  std::shared_ptr<engine::TransferImpl> transfer;
  {
    const std::lock_guard lock(mutex_);
    if (const auto write = writes_.find({peer.get(), cancel.id}); write != writes_.end()) {
      transfer = write->second.transfer;
    }
  }
  if (transfer) {
    // Answered when no byte moves any more.
    core_->give_up(transfer, Error(ErrorCode::cancelled, "the receiver gave up"));
  } else {
    core_->send(*peer, wire::PullDone{cancel.id, static_cast<std::uint32_t>(ErrorCode::cancelled),
                                      "no such pull is under way"});
  }
}

void Publications::on_original_request(const control::CallerId& caller, wire::OriginalRequest request) {
  if (const auto* pull = std::get_if<wire::OriginalPull>(&request); pull != nullptr) {
    return serve_original_pull(caller, *pull);
  }
  const auto& query = std::get<wire::OriginalQuery>(request);
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(query.request_id);
  if (entry == entries_.end()) {
    core_->answer_original(caller, bytes_of(wire::kInfoNotFound));
  } else {
    core_->answer_original(caller,
                           wire::encode(wire::OriginalQueryResponse{query.request_id, entry->second.size,
                                                                    is_fast_path(entry->second.kind)}));
  }
}

void Publications::serve_original_pull(const control::CallerId& caller, const wire::OriginalPull& pull) {
  const Status started = try_original_pull(caller, pull);
  if (started) return;
  if (const auto held = refusal_log_.admit(core_->clock().now())) {
    base::log(LogLevel::warning, "connector", "pull of ", pull.request_id,
              " refused: ", started.error().message(),
              *held > 0 ? base::text("; ", *held, " such lines held back") : "");
  }
  core_->answer_original(caller, bytes_of(wire::kTransferError));
}

Status Publications::try_original_pull(const control::CallerId& caller, const wire::OriginalPull& pull) {
  auto engine = EngineDesc::unpack(pull.engine_desc);
  if (!engine) return engine.error();
  std::shared_ptr<engine::TransferImpl> transfer;
  memory::Pool::Offset block = 0;
  // Outside of the lock: it connects.
  const engine::PeerPtr peer = core_->add_peer(*engine);
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(pull.request_id);
    if (entry == entries_.end()) return base::error(ErrorCode::not_found, "it is not published here");
    if (entry->second.size != pull.length) {
      return base::error(ErrorCode::invalid_argument, "length mismatch: it has ", entry->second.size,
                         " bytes, the pull names ", pull.length);
    }
    auto made = make_write(peer, pull.memory_desc, entry->second, pull.target_offset);
    if (!made) return made.error();
    transfer = std::move(*made);
    block = entry->second.block;
    pool_->pin(block);
    ++entry->second.readers;
  }
  transfer->on_quiet([this, caller, key = pull.request_id, block, raw = transfer.get()] {
    original_pull_ended(caller, key, block,
                        raw->state() == TransferState::done ? Status() : Status(*raw->error()));
  });
  core_->submit(transfer, false);
  return {};
}

// Taken when it was written whole; else kept, since the receiver may ask again.
void Publications::original_pull_ended(const control::CallerId& caller, const std::string& key,
                                       memory::Pool::Offset block, const Status& status) {
  if (!status) base::log(LogLevel::warning, "connector", key, " is kept: ", status.error().message());
  {
    const std::lock_guard lock(mutex_);
    reader_left(key, block, status.ok());
  }
  core_->answer_original(caller, bytes_of(status ? wire::kTransferDone : wire::kTransferError));
}

}  // namespace stagewire::connector
