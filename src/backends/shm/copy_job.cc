#include "backends/shm/copy_job.hpp"

#include <algorithm>

#include "backends/shm/copy.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/region_table.hpp"
#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

constexpr std::uint64_t kStep = 1ULL << 20;

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

Result<CopyPlan> plan_copy(const WorkRequest& request, const Import& remote) {
  const MemoryRegion& local = static_cast<const ShmRegistration*>(request.local)->region();
  const bool reads = request.operation == Operation::read;
  if (reads ? !allows_read(remote.access()) : !allows_write(remote.access())) {
    return base::error(ErrorCode::permission, "region ", remote.key().id, " of ", remote.key().socket,
                       " is not registered for remote ", reads ? "read" : "write");
  }
  CopyPlan plan{request.operation, local.data, remote.mapping()->data(), 0};
  for (const Segment& segment : request.segments) {
    if (!inside(segment.local_offset, segment.size, local.size) ||
        !inside(segment.remote_offset, segment.size, remote.key().size)) {
      return base::error(ErrorCode::invalid_argument, "a segment of ", segment.size, " bytes at ",
                         segment.local_offset, " of ", local.size, " here and ", segment.remote_offset,
                         " of ", remote.key().size, " there");
    }
    plan.total += segment.size;
  }
  return plan;
}

void copy_part(const CopyPlan& plan, const Segment& segment, std::uint64_t begin, std::uint64_t size) {
  std::byte* local = plan.local + segment.local_offset + begin;
  std::byte* remote = plan.remote + segment.remote_offset + begin;
  if (plan.operation == Operation::read) {
    copy_bytes(local, remote, size, plan.total);
  } else {
    copy_bytes(remote, local, size, plan.total);
  }
}

CopyJob::CopyJob(Outbox& outbox, const CopyPlan& plan, const WorkRequest& request)
    : Job(&outbox),
      outbox_(outbox),
      plan_(plan),
      id_(request.id),
      notification_(request.notification),
      segments_(request.segments.begin(), request.segments.end()) {}

bool CopyJob::step() {
  std::uint64_t budget = kStep;
  while (segment_ < segments_.size() && budget > 0 && !outbox_.lost()) {
    const Segment& segment = segments_[segment_];
    const std::uint64_t size = std::min(segment.size - done_, budget);
    copy_part(plan_, segment, done_, size);
    done_ += size;
    budget -= size;
    if (done_ == segment.size) {
      ++segment_;
      done_ = 0;
    }
  }
  if (segment_ < segments_.size() && !outbox_.lost()) return false;
  outbox_.finish(id_, notification_);
  return true;
}

void CopyJob::abandon() {
  outbox_.abandoned(id_);
}

PopulateJob::PopulateJob(Outbox& outbox, std::shared_ptr<Import> import,
                         std::shared_ptr<RegionMapping> mapping)
    : Job(&outbox), outbox_(outbox), import_(std::move(import)), mapping_(std::move(mapping)) {}

bool PopulateJob::step() {
  if (!outbox_.lost()) done_ = mapping_->populate(done_);
  if (done_ < mapping_->size() && !outbox_.lost()) return false;
  outbox_.imported(*import_, mapping_);
  return true;
}

void PopulateJob::abandon() {
  import_->fail(base::error(ErrorCode::closed, "the endpoint was closed while a region was being imported"));
}

}  // namespace stagewire::backends::shm
