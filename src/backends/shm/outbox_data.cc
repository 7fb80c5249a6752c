// The data path of an outbox: messages, payload slots, work requests.
#include <unistd.h>

#include <cstring>

#include "backends/shm/copy_job.hpp"
#include "backends/shm/outbox.hpp"
#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends::shm {

void Outbox::ring() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the peer has been told.
  if (::write(doorbell_.get(), &one, sizeof one) < 0) return;
}

PayloadSlot Outbox::reserve(std::size_t size) {
  if (phase_.load(std::memory_order_acquire) != Phase::up) return {};
  const RingView& view = writer_->view();
  if (size == 0 || size > view.geometry.slot_size || view.geometry.slots == 0) return {};
  std::unique_lock lock(ring_mutex_);
  const auto slot = writer_->take_slot();
  // The peer may sleep on messages whose slots are wanted now.
  const bool wake = !slot && writer_->should_ring(true);
  lock.unlock();
  if (wake) ring();
  if (!slot) return {};
  return {{view.payloads + std::uint64_t{*slot} * view.geometry.slot_size, size}, *slot};
}

void Outbox::abandon(const PayloadSlot& slot) {
  if (slot.bytes.empty()) return;
  const std::lock_guard lock(ring_mutex_);
  STAGEWIRE_CHECK(writer_ && writer_->holds_slot(slot.index), "a slot is abandoned by who reserved it, once");
  writer_->abandon_slot(slot.index);
}

Result<Posted> Outbox::send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) {
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::lost) return reason();
  if (phase == Phase::connecting) return Posted::full;
  if (message.size() > writer_->view().geometry.max_message()) {
    return base::error(ErrorCode::too_large, "a message of ", message.size(), " bytes; process ",
                       peer_.process, " takes ", writer_->view().geometry.max_message(),
                       ": raise its message_ring_size");
  }
  std::unique_lock lock(ring_mutex_);
  STAGEWIRE_CHECK(slot.bytes.empty() || writer_->holds_slot(slot.index),
                  "a slot is sent by who reserved it, once");
  const RingWriter::Put put =
      writer_->put(RecordKind::message, message, slot.index, static_cast<std::uint32_t>(slot.bytes.size()));
  const bool wake = writer_->should_ring(urgent || put == RingWriter::Put::full);
  lock.unlock();
  if (wake) ring();
  if (put == RingWriter::Put::done) return Posted::completed;
  if (put == RingWriter::Put::full) return Posted::full;
  fail(corrupt("the index of what it has read makes no sense"));
  return reason();
}

Result<Posted> Outbox::post(const WorkRequest& request, const Import& remote) {
  const Phase phase = phase_.load(std::memory_order_acquire);
  if (phase == Phase::lost) return reason();
  const auto imported = remote.status();
  if (phase == Phase::connecting || !imported) return Posted::full;
  if (!*imported) return imported->error();
  if (remote.key().socket != peer_.socket) {
    return base::error(ErrorCode::invalid_argument, "request ", request.id, " names a region of ",
                       remote.key().socket, ", this endpoint is connected to ", peer_.socket);
  }
  const auto plan = plan_copy(request, remote);
  if (!plan) return plan.error();
  if (request.notification && many_late()) return Posted::full;
  if (!request.on_this_thread && plan->total > kCopiedInline) {
    std::unique_ptr<backend::Worker::Job> job = std::make_unique<CopyJob>(*this, *plan, request);
    const auto pushed = host_.worker.push(job);
    if (!pushed) return pushed.error();
    return *pushed ? Posted::pending : Posted::full;
  }
  for (const Segment& segment : request.segments) copy_part(*plan, segment, 0, segment.size);
  if (!request.notification) return Posted::completed;
  const auto notified = notify(request.id, *request.notification);
  if (!notified) return notified.error();
  return *notified ? Posted::completed : Posted::pending;
}

bool Outbox::many_late() {
  if (host_.late_notifications.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(ring_mutex_);
  return late_.size() >= kMaxLateNotifications;
}

RingWriter::Put Outbox::put_notification(std::uint32_t value) {
  std::array<std::byte, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  return writer_->put(RecordKind::notification, bytes, 0, 0);
}

Result<bool> Outbox::notify(std::uint64_t id, std::uint32_t value) {
  std::unique_lock lock(ring_mutex_);
  if (lost()) {
    lock.unlock();
    return reason();
  }
  const RingWriter::Put put = late_.empty() ? put_notification(value) : RingWriter::Put::full;
  if (put == RingWriter::Put::full) {
    late_.push_back({id, value});
    host_.late_notifications.fetch_add(1);
  }
  const bool wake = writer_->should_ring(true);
  lock.unlock();
  if (wake) ring();
  if (put == RingWriter::Put::corrupt) {
    fail(corrupt("the index of what it has read makes no sense"));
    return reason();
  }
  return put == RingWriter::Put::done;
}

std::size_t Outbox::send_late_notifications() {
  std::vector<std::uint64_t> sent;
  std::unique_lock lock(ring_mutex_);
  RingWriter::Put put = RingWriter::Put::done;
  while (!late_.empty()) {
    put = put_notification(late_.front().value);
    if (put != RingWriter::Put::done) break;
    sent.push_back(late_.front().id);
    late_.pop_front();
  }
  const bool wake = writer_ && writer_->should_ring(true);
  lock.unlock();
  if (wake) ring();
  host_.late_notifications.fetch_sub(sent.size());
  for (const std::uint64_t id : sent) host_.completions.push(id, {});
  if (put == RingWriter::Put::corrupt) fail(corrupt("the index of what it has read makes no sense"));
  return sent.size();
}

void Outbox::finish(std::uint64_t id, std::optional<std::uint32_t> notification) {
  if (lost()) {
    host_.completions.push(id, reason());
    return;
  }
  if (notification) {
    const auto notified = notify(id, *notification);
    if (!notified) {
      host_.completions.push(id, notified.error());
    } else if (*notified) {
      host_.completions.push(id, {});
    }
    return;
  }
  host_.completions.push(id, {});
}

void Outbox::abandoned(std::uint64_t id) {
  host_.completions.push(id, base::error(ErrorCode::closed, "the endpoint to process ", peer_.process,
                                         " was closed before the copy had ended"));
}

}  // namespace stagewire::backends::shm
