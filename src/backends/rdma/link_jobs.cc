// Transfers: reads and writes of the peer's memory, cut into work requests, over all data queue pairs of a
// link.
#include <algorithm>
#include <array>

#include "backends/rdma/link.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

constexpr std::uint32_t kMaxChain = 64;
constexpr std::uint32_t kMaxSegments = 4;
constexpr std::uint64_t kMostOfChain = 4 << 20;
// Pieces are not made smaller than this to keep all queue pairs busy.
constexpr std::uint64_t kLeastPiece = 64 * 1024;

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

// Whether the peer's device refused this very request: trying again would not help.
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

/// Work requests in the making.
struct Chain {
  std::array<ibv_send_wr, kMaxChain> requests;
  std::array<ibv_sge, kMaxChain * kMaxSegments> segments;
};

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
  if (phase_ != Phase::up || jobs_.size() >= kMaxJobs) {
    starved_ = true;
    await_sent();
    return Posted::full;
  }
  const std::uint64_t serial = next_job_++;
  Job& job = jobs_[serial];
  job.id = request.id;
  job.operation = request.operation;
  job.local = &local;
  job.remote_base = remote.key().base;
  job.remote_keys = remote.key().keys;
  for (const Segment& s : request.segments) {
    if (s.size > 0) job.segments.push_back(s);
  }
  job.notification = request.notification;
  await_sent();
  unposted_.push_back(serial);
  pump();
  return Posted::pending;
}

// Posts what there is room for, the oldest first.
void Link::pump() {
  while (!unposted_.empty() && phase_ == Phase::up) {
    const std::uint64_t serial = unposted_.front();
    Job& job = jobs_.at(serial);
    if (!post_pieces(serial, job)) return;
    unposted_.pop_front();
    job_advanced(serial);  // it may have had nothing to move
  }
}

// True when all of it is posted.
bool Link::post_pieces(std::uint64_t serial, Job& job) {
  while (job.segment < job.segments.size()) {
    const auto most_room = std::max_element(
        pairs_.begin() + 1, pairs_.end(), [](const auto& a, const auto& b) { return a->room() < b->room(); });
    const std::uint32_t most = std::min({(*most_room)->room(), kMaxChain, host_.settings.post_batch});
    if (most == 0) return false;
    const Part part{++job.next_part, job.segment, job.offset};
    Chain chain;
    const std::uint32_t count = build_chain(job, serial, most, chain);
    job.under_way.push_back(part);
    const QueuePair::Posting posting{.work_requests = count, .job = serial, .part = part.number};
    if (Status ok = (*most_room)->post(chain.requests.data(), posting); !ok) {
      break_off(ok.error());  // the part is moved over the next queue pairs
      return false;
    }
  }
  return true;
}

// Work requests for the job's next bytes. Each moves one range of the peer's memory, from or to as many
// ranges of ours as fit into one; with several queue pairs a chain is one piece, so that all of them have
// some. A chain is what is moved again when it fails, so it does not grow beyond kMostOfChain.
std::uint32_t Link::build_chain(Job& job, std::uint64_t serial, std::uint32_t most, Chain& chain) const {
  const Port& port = *host_.ports[port_];
  const std::uint32_t local_key = job.local->local_key(port_);
  const std::uint32_t most_segments =
      std::min<std::uint32_t>(kMaxSegments, static_cast<std::uint32_t>(std::max(1, port.limits().segments)));
  std::uint64_t piece =
      std::min(host_.settings.max_piece, std::max<std::uint64_t>(port.limits().message_size, 1));
  const std::size_t data_pairs = pairs_.size() - 1;
  if (data_pairs > 1) {
    std::uint64_t total = 0;
    for (const Segment& s : job.segments) total += s.size;
    piece = std::min(piece, std::max(kLeastPiece, total / data_pairs));
    most = 1;
  }
  std::uint32_t count = 0;
  std::uint64_t moved = 0;
  for (; count < most && moved < kMostOfChain && job.segment < job.segments.size(); ++count) {
    ibv_send_wr& request = chain.requests[count];
    request = {};
    request.wr_id = serial;
    request.opcode = job.operation == Operation::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.sg_list = &chain.segments[count * kMaxSegments];
    request.wr.rdma.remote_addr = job.remote_base + job.segments[job.segment].remote_offset + job.offset;
    request.wr.rdma.rkey = job.remote_keys[rail_];
    std::uint64_t left = piece;
    std::uint64_t next_remote = job.segments[job.segment].remote_offset + job.offset;
    while (left > 0 && static_cast<std::uint32_t>(request.num_sge) < most_segments &&
           job.segment < job.segments.size()) {
      const Segment& s = job.segments[job.segment];
      if (s.remote_offset + job.offset != next_remote) break;
      const std::uint64_t size = std::min(left, s.size - job.offset);
      request.sg_list[request.num_sge++] = {
          reinterpret_cast<std::uintptr_t>(job.local->memory().data + s.local_offset + job.offset),
          static_cast<std::uint32_t>(size), local_key};
      left -= size;
      moved += size;
      next_remote += size;
      job.offset += size;
      if (job.offset == s.size) {
        ++job.segment;
        job.offset = 0;
      }
    }
    if (count > 0) chain.requests[count - 1].next = &request;
  }
  chain.requests[count - 1].send_flags = IBV_SEND_SIGNALED;
  return count;
}

void Link::part_ended(const QueuePair::Posting& posting) {
  const auto found = jobs_.find(posting.job);
  if (found == jobs_.end()) return;
  std::erase_if(found->second.under_way, [&](const Part& part) { return part.number == posting.part; });
  job_advanced(posting.job);
}

void Link::job_advanced(std::uint64_t serial) {
  const auto found = jobs_.find(serial);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (!job.under_way.empty() || job.segment < job.segments.size() || job.moved) return;
  job.moved = true;
  if (!job.notification) return finish_job(serial, {});
  put_or_keep({FrameKind::notification, *job.notification, 0, serial, {}});
}

void Link::finish_job(std::uint64_t serial, const Status& status) {
  const auto found = jobs_.find(serial);
  if (found == jobs_.end()) return;
  host_.completions.push(found->second.id, status);
  jobs_.erase(found);
  if (std::exchange(starved_, false)) wants_attention();
}

void Link::blame_job(const ibv_wc& completion, const std::string& text) {
  const auto found = jobs_.find(completion.wr_id);
  if (found == jobs_.end() || !is_refusal(completion.status)) return;
  const Job& job = found->second;
  const bool access =
      completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_INV_REQ_ERR;
  found->second.failed =
      base::error(access ? ErrorCode::not_found : ErrorCode::failed, peer_name(), ": ",
                  job.operation == Operation::read ? "read" : "write", " was refused: ", text,
                  access ? "; the peer's region is not registered (any more)" : "");
}

// The old queue pairs are gone: no byte of these moves any more.
void Link::finish_failed_jobs() {
  std::vector<std::pair<std::uint64_t, Error>> failed;
  for (const auto& [serial, job] : jobs_) {
    if (job.failed) failed.emplace_back(serial, *job.failed);
  }
  for (const auto& [serial, reason] : failed) {
    std::erase(unposted_, serial);
    finish_job(serial, reason);
  }
}

// Over new queue pairs every transfer goes on from its first byte that is not known to be there. One that is
// all there only has its notification to wait for, which goes its own way.
void Link::restart_jobs() {
  finish_failed_jobs();
  unposted_.clear();
  for (auto& [serial, job] : jobs_) {
    if (job.moved) continue;
    for (const Part& part : job.under_way) {
      if (std::pair(part.segment, part.offset) < std::pair(job.segment, job.offset)) {
        job.segment = part.segment;
        job.offset = part.offset;
      }
    }
    job.under_way.clear();
    unposted_.push_back(serial);
  }
}

void Link::fail_jobs(const Error& reason) {
  for (const auto& [serial, job] : jobs_) {
    host_.completions.push(job.id, job.failed ? Status(*job.failed) : Status(reason));
  }
  jobs_.clear();
  unposted_.clear();
}

}  // namespace stagewire::backends::rdma
