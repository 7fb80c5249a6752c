// Frames: what a link's first queue pair carries, in order, each once.
#include <algorithm>
#include <cstring>

#include "backend/packed_struct.hpp"
#include "backends/rdma/link.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof value);
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace

// --- Sending

// Receive buffers that the peer has for us. All counts wrap around together.
std::uint32_t Link::credits() const {
  const auto sent = static_cast<std::uint32_t>(frames_acknowledged_ + unacknowledged_.size());
  return peer_end_.buffers - (sent - peer_freed_frames_);
}

bool Link::has_room(std::uint32_t reserve) const {
  return credits() > reserve && !free_buffers_.empty() && pairs_[0]->room() > 1;
}

// The payload, if any, lies in its slot already. False: no room, nothing has happened.
bool Link::put_frame(const FrameHeader& header, std::span<const std::byte> message, std::size_t slot,
                     bool urgent, Transfers::Serial transfer, std::uint32_t reserve) {
  if (!is_up() || !has_room(reserve)) return false;
  Outgoing frame;
  frame.buffer = free_buffers_.back();
  frame.slot = slot;
  frame.payload_size = header.payload_size;
  frame.transfer = transfer;
  frame.bye = header.kind == FrameKind::bye;
  // One that leaves little room wakes the peer in any case, so that it makes some.
  frame.urgent = urgent || credits() <= peer_end_.buffers / 2;
  free_buffers_.pop_back();
  std::byte* const buffer = memory_->send_buffer(frame.buffer);
  std::memcpy(buffer, &header, sizeof header);
  if (!message.empty()) std::memcpy(buffer + kFrameHeader, message.data(), message.size());
  unacknowledged_.push_back(frame);
  post_frame(unacknowledged_.back());
  return true;
}

// A frame whose posting fails stays in its place: the queue pair is broken, and the next one sends it.
void Link::post_frame(Outgoing& frame) {
  std::byte* const buffer = memory_->send_buffer(frame.buffer);
  FrameHeader header;
  std::memcpy(&header, buffer, sizeof header);
  header.freed_frames = told_frames_ = freed_frames_;
  header.freed_payloads = told_payloads_ = freed_payloads_;
  std::memcpy(buffer, &header, sizeof header);
  const std::uint32_t key = memory_->key(port());
  const auto segment = [key](std::byte* at, std::size_t size) {
    return ibv_sge{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(size), key};
  };
  ibv_sge segments[3];
  int count = 0;
  if (frame.slot == kNoSlot) {
    segments[count++] = segment(buffer, kFrameHeader + header.message_size);
  } else {
    segments[count++] = segment(buffer, kFrameHeader);
    segments[count++] = segment(memory_->payload(frame.slot), padded(frame.payload_size));
    if (header.message_size > 0) segments[count++] = segment(buffer + kFrameHeader, header.message_size);
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  if (frame.urgent) request.send_flags |= IBV_SEND_SOLICITED;
  request.sg_list = segments;
  request.num_sge = count;
  if (Status ok = pairs_[0]->post(&request, {.work_requests = 1, .frames = 1}); !ok) break_off(ok.error());
}

void Link::put_or_keep(Pending pending) {
  pending_.push_back(std::move(pending));
  flush_pending();
}

void Link::flush_pending() {
  while (!pending_.empty() && is_up()) {
    const Pending& next = pending_.front();
    FrameHeader header;
    header.kind = next.kind;
    header.message_size = static_cast<std::uint32_t>(next.message.size());
    header.number = next.number;
    header.error = next.error;
    const bool of_the_link = next.kind == FrameKind::bye || next.kind == FrameKind::begin;
    const std::uint32_t reserve = of_the_link ? 0 : kReserve;
    if (!put_frame(header, next.message, kNoSlot, true, next.transfer, reserve)) return;
    if (phase_ == Phase::ended) return;  // the last frame could not be posted: nothing is pending any more
    pending_.pop_front();
  }
}

// The peer's device has the first so many.
void Link::acknowledge(std::size_t frames) {
  bool said_bye = false;
  for (; frames > 0 && !unacknowledged_.empty(); --frames) {
    const Outgoing frame = unacknowledged_.front();
    unacknowledged_.pop_front();
    ++frames_acknowledged_;
    free_buffers_.push_back(frame.buffer);
    if (frame.slot != kNoSlot) free_slots_.push_back(frame.slot);
    if (frame.transfer != 0) transfers_.finish(frame.transfer, {});
    said_bye = said_bye || frame.bye;
  }
  if (said_bye) end(base::error(ErrorCode::closed, "the endpoint was closed"));
}

Result<Posted> Link::send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) {
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  const std::size_t most = was_up_ ? std::min(memory_->outbound().message_size, peer_end_.message_size)
                                   : memory_->outbound().message_size;
  if (message.size() > most) {
    return base::error(ErrorCode::too_large, "a message of ", message.size(), " bytes; at most ", most,
                       " fit: raise message_ring_size");
  }
  FrameHeader header;
  header.kind = FrameKind::message;
  header.message_size = static_cast<std::uint32_t>(message.size());
  header.payload_size = static_cast<std::uint32_t>(slot.bytes.size());
  const std::size_t place = slot.bytes.empty() ? kNoSlot : slot.index;
  if (!pending_.empty() || !put_frame(header, message, place, urgent, 0, kReserve)) {
    starved_ = true;
    await_sent();
    return Posted::full;
  }
  if (place != kNoSlot) {
    --payloads_reserved_;
    ++payloads_sent_;
  }
  return Posted::completed;
}

PayloadSlot Link::reserve(std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::up || size == 0) return {};
  if (size > memory_->outbound().payload_size || size > peer_end_.payload_size) return {};
  const std::uint32_t under_way = payloads_reserved_ + (payloads_sent_ - peer_freed_payloads_);
  if (under_way >= peer_end_.payloads || free_slots_.empty()) {
    starved_ = true;
    await_sent();
    return {};
  }
  const std::size_t index = free_slots_.back();
  free_slots_.pop_back();
  ++payloads_reserved_;
  return {{memory_->payload(index), size}, static_cast<std::uint32_t>(index)};
}

void Link::abandon(const PayloadSlot& slot) {
  const std::lock_guard lock(mutex_);
  if (slot.bytes.empty()) return;
  free_slots_.push_back(slot.index);
  --payloads_reserved_;
  if (std::exchange(starved_, false)) wants_attention();
}

void Link::on_sent(const ibv_wc& completion, std::size_t pair, std::size_t& events) {
  const std::lock_guard lock(mutex_);
  if (!is_up() || pair >= pairs_.size() || pairs_[pair]->number() != completion.qp_num) return;
  if (completion.status != IBV_WC_SUCCESS) {
    const std::string text =
        base::text(port().verbs().wc_status_str(completion.status), " (", static_cast<int>(completion.status),
                   ", vendor error ", completion.vendor_err, ")");
    if (completion.status == IBV_WC_RETRY_EXC_ERR) ways_.note_dead(way_of_[pair], base::steady_clock().now());
    if (pair > 0) transfers_.blame(completion, peer_name(), text);
    ++events;
    return break_off(base::error(ErrorCode::unavailable, "queue pair ", completion.qp_num, ": ", text));
  }
  last_heard_ = base::steady_clock().now();
  const QueuePair::Posting posting = pairs_[pair]->take_completed();
  const std::size_t transfers = transfers_.count();
  if (pair == 0) {
    if (posting.frames == 0) pinging_ = false;
    acknowledge(posting.frames);
    if (!is_up()) return;
    flush_pending();
  } else {
    transfers_.part_ended(posting);
    pump();
  }
  note_ended(transfers);
  if (starved_ && has_room(kReserve)) {
    starved_ = false;
    ++events;
  }
  if (!starved_ && transfers_.count() == 0 && phase_ == Phase::up && std::exchange(awaits_sent_, false)) {
    host_.awaiting_sent.fetch_sub(1);
  }
}

// --- Receiving

Status Link::post_receive(std::uint32_t index) {
  const Shape& shape = memory_->inbound();
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(memory_->receive_buffer(index)),
                  static_cast<std::uint32_t>(shape.receive_size()), memory_->key(port())};
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = &segment;
  request.num_sge = 1;
  Status posted = pairs_[0]->post_receive(&request);
  if (posted) ++posted_receives_;
  return posted;
}

void Link::on_received(const ibv_wc& completion, EventSink& sink, std::size_t& events) {
  ReceivedFrame frame;
  const auto index = static_cast<std::uint32_t>(completion.wr_id);
  bool arrives = false;
  {
    const std::lock_guard lock(mutex_);
    if (pairs_.empty() || pairs_[0]->number() != completion.qp_num || index >= held_.size()) return;
    if (posted_receives_ > 0) --posted_receives_;
    if (completion.status != IBV_WC_SUCCESS) {
      if (phase_ != Phase::draining) {
        break_off(base::error(ErrorCode::unavailable, "queue pair ", completion.qp_num, ": ",
                              port().verbs().wc_status_str(completion.status)));
      }
      return;
    }
    ++events;
    const Shape& shape = memory_->inbound();
    frame = read_frame({memory_->receive_buffer(index), completion.byte_len}, shape.message_size,
                       shape.payload_size);
    ++frames_received_;
    held_[index] = true;
    if (!frame.payload.empty()) ++payloads_received_;
    const Status sane = frame.sane ? note_freed(frame.header.freed_frames, frame.header.freed_payloads)
                                   : Status(base::error(ErrorCode::corrupt, peer_name(), ": a frame of ",
                                                        completion.byte_len, " bytes makes no sense"));
    if (!sane) return end(sane.error());
    last_heard_ = base::steady_clock().now();
    if (phase_ == Phase::waiting) came_up();
    arrives = !caller_ && !arrived_;
  }
  if (arrives) {
    arrived_ = true;
    token_ = sink.on_peer_arrived(peer_address_, {});
  }
  deliver(frame, index, sink);
}

// How much of what we sent the peer is done with.
Status Link::note_freed(std::uint32_t frames, std::uint32_t payloads) {
  const auto sent = static_cast<std::uint32_t>(frames_acknowledged_ + unacknowledged_.size());
  const bool possible = sent - frames <= sent - peer_freed_frames_ &&
                        payloads_sent_ - payloads <= payloads_sent_ - peer_freed_payloads_;
  if (!possible) {
    return base::error(ErrorCode::corrupt, peer_name(), ": the peer is done with ", frames, " frames, of ",
                       sent, " that were sent, after ", peer_freed_frames_);
  }
  const bool more = frames != peer_freed_frames_ || payloads != peer_freed_payloads_;
  peer_freed_frames_ = frames;
  peer_freed_payloads_ = payloads;
  if (!more) return {};
  flush_pending();
  if (std::exchange(starved_, false)) wants_attention();
  return {};
}

void Link::deliver(const ReceivedFrame& frame, std::uint32_t index, EventSink& sink) {
  switch (frame.header.kind) {
    case FrameKind::message:
      if (frame.payload.empty()) {
        sink.on_message(token_, frame.message, {});
      } else {
        return sink.on_message(token_, frame.message,
                               MessagePayload(frame.payload, shared_from_this(), release_payload, index));
      }
      break;
    case FrameKind::notification:
      sink.on_notification(token_, frame.header.number);
      break;
    default:
      break;
  }
  const std::lock_guard lock(mutex_);
  if (frame.header.kind == FrameKind::import_request) answer_import(frame);
  if (frame.header.kind == FrameKind::import_answer) take_import_answer(frame);
  if (frame.header.kind == FrameKind::bye) {
    return end(base::error(ErrorCode::unavailable, peer_name(), ": the peer has closed"));
  }
  if (!frame.payload.empty()) ++freed_payloads_;  // nobody wanted it
  give_back(index);
}

void Link::release_payload(void* link, std::uint32_t index) {
  auto& self = *static_cast<Link*>(link);
  const std::lock_guard lock(self.mutex_);
  ++self.freed_payloads_;
  self.give_back(index);
}

void Link::give_back(std::uint32_t index) {
  held_[index] = false;
  ++freed_frames_;
  if (phase_ == Phase::ended || pairs_.empty() || phase_ == Phase::draining) return;
  if (Status ok = post_receive(index); !ok) return break_off(ok.error());
  return_credits();
}

// Told when a quarter has gathered, and at once when the peer may be waiting.
void Link::return_credits() {
  if (!is_up()) return;
  const Shape& shape = memory_->inbound();
  const std::uint32_t frames = freed_frames_ - told_frames_;
  const std::uint32_t payloads = freed_payloads_ - told_payloads_;
  const std::uint32_t frames_known_free =
      shape.buffers - (static_cast<std::uint32_t>(frames_received_) - told_frames_);
  const std::uint32_t payloads_known_free = shape.payloads - (payloads_received_ - told_payloads_);
  const bool due = frames >= shape.buffers / 4 ||
                   (frames > kReserve && frames_known_free <= shape.buffers / 8) ||
                   (payloads > 0 && payloads_known_free <= shape.payloads / 4);
  if (!due) return;
  FrameHeader header;
  header.kind = FrameKind::credits;
  put_frame(header, {}, kNoSlot, true, 0, 0);
}

// --- Imports

Result<std::shared_ptr<Import>> Link::import(std::span<const std::byte> remote_key) {
  auto key = unpack_region_key(remote_key);
  if (!key) return key.error();
  const std::lock_guard lock(mutex_);
  if (error_) return *error_;
  if (key->instance != peer_.instance) {
    return base::error(ErrorCode::not_found, "region ", key->id, " is not the peer's at ", peer_name());
  }
  if (key->access == 0) {
    return base::error(ErrorCode::permission, "region ", key->id, " is for local use only");
  }
  if (key->keys.size() != peer_.rails.size()) {
    return base::error(ErrorCode::corrupt, "the key of region ", key->id, " is for ", key->keys.size(),
                       " ports, the peer has ", peer_.rails.size());
  }
  if (imports_.size() + pending_.size() >= kMaxPending) {
    return base::error(ErrorCode::exhausted, imports_.size(), " imports are under way already");
  }
  std::vector<std::byte> question;
  append(question, key->id);
  append(question, key->token);
  const std::uint32_t number = next_import_++;
  auto import = std::make_shared<Import>(std::move(*key));
  imports_[number] = import;
  put_or_keep({FrameKind::import_request, number, 0, 0, std::move(question)});
  return import;
}

void Link::answer_import(const ReceivedFrame& frame) {
  if (frame.message.size() != 16) {
    return end(
        base::error(ErrorCode::corrupt, peer_name(), ": a question of ", frame.message.size(), " bytes"));
  }
  const Status found = host_.regions.check(number_at(frame.message, 0), number_at(frame.message, 8));
  Pending answer{FrameKind::import_answer, frame.header.number, 0, 0, {}};
  if (!found) {
    answer.error = static_cast<std::uint32_t>(found.error().code());
    const auto text = std::as_bytes(std::span(found.error().message()));
    answer.message.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                           text.size(), memory_->outbound().message_size)));
  }
  if (pending_.size() >= kMaxPending) {
    return end(base::error(ErrorCode::corrupt, peer_name(), ": asks faster than it listens"));
  }
  put_or_keep(std::move(answer));
}

void Link::take_import_answer(const ReceivedFrame& frame) {
  const auto found = imports_.find(frame.header.number);
  if (found == imports_.end()) return;
  const std::string_view text(reinterpret_cast<const char*>(frame.message.data()), frame.message.size());
  found->second->end(frame.header.error == 0 ? Status()
                                             : Status(backend::error_of_peer(frame.header.error, text)));
  imports_.erase(found);
}

}  // namespace stagewire::backends::rdma
