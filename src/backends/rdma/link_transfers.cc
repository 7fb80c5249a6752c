// What a link does with its transfers: checks them, and tells the peer of those that are done.
#include "backends/rdma/link.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

Result<Posted> Link::post(const WorkRequest& request, const Import& remote) {
  const auto usable = remote.status();
  if (!usable) return base::error(ErrorCode::invalid_argument, "the region is still being imported");
  if (!*usable) return usable->error();
  const bool reads = request.operation == Operation::read;
  if (reads ? !allows_read(remote.access()) : !allows_write(remote.access())) {
    return base::error(ErrorCode::permission, "the region is not registered for remote ",
                       reads ? "read" : "write");
  }
  const auto& local = *static_cast<const RdmaRegistration*>(request.local);
  for (const Segment& s : request.segments) {
    if (inside(s.local_offset, s.size, local.memory().size) &&
        inside(s.remote_offset, s.size, remote.key().size))
      continue;
    return base::error(ErrorCode::invalid_argument, "a segment of ", s.size, " bytes at ", s.local_offset,
                       " of ", local.memory().size, " here and ", s.remote_offset, " of ", remote.key().size,
                       " there");
  }
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  await_sent();
  if (phase_ != Phase::up || transfers_.full()) {
    starved_ = true;
    return Posted::full;
  }
  transfers_.add({request.id, request.operation, local.memory().data, local.local_keys(), remote.key().base,
                  remote.key().keys, request.segments, request.notification});
  pump();
  return Posted::pending;
}

// The notification of a transfer whose bytes are all there.
Transfers::Moved Link::notify_later() {
  return [this](Transfers::Serial transfer, std::uint32_t number) {
    put_or_keep({FrameKind::notification, number, 0, transfer, {}});
  };
}

// Transfers that meet a broken queue pair go on over the next ones.
void Link::pump() {
  if (phase_ != Phase::up) return;
  if (Status ok = transfers_.pump(lanes_); !ok) break_off(ok.error());
}

// There is room for another one: who was told that there was none shall know.
void Link::note_ended(std::size_t transfers_before) {
  if (transfers_.count() < transfers_before && std::exchange(starved_, false)) wants_attention();
}

}  // namespace stagewire::backends::rdma
