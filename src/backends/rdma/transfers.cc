#include "backends/rdma/transfers.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

// A chain is what is moved again when it fails.
constexpr std::uint64_t kMostOfChain = 4 << 20;
// Pieces are not made smaller than this to keep all queue pairs busy.
constexpr std::uint64_t kLeastPiece = 64 * 1024;

// Whether a device refused this very request: trying again would not help.
bool is_refusal(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
      return true;
    default:
      return false;
  }
}

}  // namespace

Transfers::Transfer* Transfers::find(Serial serial) {
  const std::size_t place = serial % kMost;
  if (place >= transfers_.size() || transfers_[place].serial != serial || serial == 0) return nullptr;
  return &transfers_[place];
}

void Transfers::add(const Order& order) {
  STAGEWIRE_CHECK(!full() && order.local_keys.size() <= kMaxRails && order.remote_keys.size() <= kMaxRails,
                  "a transfer has its place and its keys");
  if (free_.empty()) {
    free_.push_back(transfers_.size());
    transfers_.emplace_back();
  }
  const std::size_t place = free_.back();
  free_.pop_back();
  ++count_;
  Transfer& transfer = transfers_[place];
  transfer.serial = ++uses_ * kMost + place;
  transfer.id = order.id;
  transfer.operation = order.operation;
  transfer.local = order.local;
  transfer.remote = order.remote;
  std::copy(order.local_keys.begin(), order.local_keys.end(), transfer.local_keys.begin());
  std::copy(order.remote_keys.begin(), order.remote_keys.end(), transfer.remote_keys.begin());
  transfer.segments.clear();
  transfer.size = 0;
  for (const Segment& s : order.segments) {
    if (s.size > 0) transfer.segments.push_back(s);
    transfer.size += s.size;
  }
  transfer.notification = order.notification;
  transfer.segment = 0;
  transfer.offset = 0;
  transfer.next_part = 0;
  transfer.under_way.clear();
  transfer.moved = false;
  transfer.failed.reset();
  unposted_.push_back(transfer.serial);
}

Status Transfers::pump(std::span<const Lane> lanes) {
  while (!unposted_.empty() && !lanes.empty()) {
    Transfer& transfer = *find(unposted_.front());
    const auto posted = post_parts(transfer, lanes);
    if (!posted) return posted.error();
    if (!*posted) return {};
    unposted_.erase(unposted_.begin());
    advanced(transfer);  // it may have had nothing to move
  }
  return {};
}

// True when all of it is posted.
Result<bool> Transfers::post_parts(Transfer& transfer, std::span<const Lane> lanes) {
  while (transfer.segment < transfer.segments.size()) {
    const Lane& lane = *std::max_element(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) {
      return a.pair->room() < b.pair->room();
    });
    if (lane.pair->room() == 0) return false;
    const Part part{++transfer.next_part, transfer.segment, transfer.offset};
    Chain chain;
    const std::uint32_t count = build_chain(transfer, lane, lanes.size(), chain);
    transfer.under_way.push_back(part);
    const QueuePair::Posting posting{
        .work_requests = count, .transfer = transfer.serial, .part = part.number};
    // When it fails, the part is moved over the next queue pairs.
    if (Status ok = lane.pair->post(chain.requests.data(), posting); !ok) return ok.error();
  }
  return true;
}

// Work requests for the next bytes. Each moves one range of the peer's memory, from or to as many ranges of
// ours as fit into one. With several lanes a chain is one piece, so that all of them have some.
std::uint32_t Transfers::build_chain(Transfer& transfer, const Lane& lane, std::size_t lanes,
                                     Chain& chain) const {
  const PortLimits& limits = lane.pair->port().limits();
  std::uint64_t piece = std::min(settings_.max_piece, std::max<std::uint64_t>(limits.message_size, 1));
  std::uint32_t most = std::min({lane.pair->room(), kMaxChain, settings_.post_batch});
  if (lanes > 1) {
    piece = std::min(piece, std::max(kLeastPiece, transfer.size / lanes));
    most = 1;
  }
  std::uint32_t count = 0;
  std::uint64_t moved = 0;
  for (; count < most && moved < kMostOfChain && transfer.segment < transfer.segments.size(); ++count) {
    ibv_send_wr& request = chain.requests[count];
    request = {};
    request.wr_id = transfer.serial;
    request.opcode = transfer.operation == Operation::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.sg_list = &chain.segments[count * kMaxSegments];
    request.wr.rdma.remote_addr =
        transfer.remote + transfer.segments[transfer.segment].remote_offset + transfer.offset;
    request.wr.rdma.rkey = transfer.remote_keys[lane.remote_key];
    add_segments(transfer, piece, segments_of(limits), transfer.local_keys[lane.local_key], request);
    for (int i = 0; i < request.num_sge; ++i) moved += request.sg_list[i].length;
    if (count > 0) chain.requests[count - 1].next = &request;
  }
  chain.requests[count - 1].send_flags = IBV_SEND_SIGNALED;
  return count;
}

// Ranges of ours for at most `piece` neighbouring bytes of the peer's.
void Transfers::add_segments(Transfer& transfer, std::uint64_t piece, std::uint32_t most, std::uint32_t key,
                             ibv_send_wr& request) const {
  std::uint64_t next_remote = transfer.segments[transfer.segment].remote_offset + transfer.offset;
  while (piece > 0 && static_cast<std::uint32_t>(request.num_sge) < most &&
         transfer.segment < transfer.segments.size()) {
    const Segment& s = transfer.segments[transfer.segment];
    if (s.remote_offset + transfer.offset != next_remote) return;
    const std::uint64_t size = std::min(piece, s.size - transfer.offset);
    request.sg_list[request.num_sge++] = {
        reinterpret_cast<std::uintptr_t>(transfer.local + s.local_offset + transfer.offset),
        static_cast<std::uint32_t>(size), key};
    piece -= size;
    next_remote += size;
    transfer.offset += size;
    if (transfer.offset == s.size) {
      ++transfer.segment;
      transfer.offset = 0;
    }
  }
}

void Transfers::part_ended(const QueuePair::Posting& posting) {
  Transfer* const transfer = find(posting.transfer);
  if (transfer == nullptr) return;
  std::erase_if(transfer->under_way, [&](const Part& part) { return part.number == posting.part; });
  advanced(*transfer);
}

void Transfers::advanced(Transfer& transfer) {
  if (!transfer.under_way.empty() || transfer.segment < transfer.segments.size() || transfer.moved) return;
  transfer.moved = true;
  if (!transfer.notification) return finish(transfer.serial, {});
  moved_(transfer.serial, *transfer.notification);
}

void Transfers::finish(Serial serial, const Status& status) {
  Transfer* const transfer = find(serial);
  if (transfer == nullptr) return;
  completions_.push(transfer->id, status);
  transfer->serial = 0;
  free_.push_back(serial % kMost);
  --count_;
}

void Transfers::blame(const ibv_wc& completion, const std::string& who, const std::string& text) {
  Transfer* const transfer = find(completion.wr_id);
  if (transfer == nullptr || !is_refusal(completion.status)) return;
  const bool access =
      completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_INV_REQ_ERR;
  transfer->failed =
      base::error(access ? ErrorCode::not_found : ErrorCode::failed, who, ": ",
                  transfer->operation == Operation::read ? "read" : "write", " was refused: ", text,
                  access ? "; the peer's region is not registered (any more)" : "");
}

// The oldest first.
std::vector<Transfers::Serial> Transfers::all() const {
  std::vector<Serial> serials;
  for (const Transfer& transfer : transfers_) {
    if (transfer.serial != 0) serials.push_back(transfer.serial);
  }
  std::sort(serials.begin(), serials.end());
  return serials;
}

void Transfers::finish_blamed() {
  for (const Serial serial : all()) {
    if (!find(serial)->failed) continue;
    std::erase(unposted_, serial);
    finish(serial, *find(serial)->failed);
  }
}

void Transfers::restart() {
  finish_blamed();
  unposted_.clear();
  for (const Serial serial : all()) {
    Transfer& transfer = *find(serial);
    if (transfer.moved) continue;
    for (const Part& part : transfer.under_way) {
      if (std::pair(part.segment, part.offset) < std::pair(transfer.segment, transfer.offset)) {
        transfer.segment = part.segment;
        transfer.offset = part.offset;
      }
    }
    transfer.under_way.clear();
    unposted_.push_back(serial);
  }
}

void Transfers::fail_all(const Error& reason) {
  unposted_.clear();
  for (const Serial serial : all()) {
    const std::optional<Error>& failed = find(serial)->failed;
    finish(serial, failed ? Status(*failed) : Status(reason));
  }
}

}  // namespace stagewire::backends::rdma
