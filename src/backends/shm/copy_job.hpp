// What the worker does for an outbox: copies that are too large for the caller's thread, and preparing
// mappings.
#pragma once

#include <vector>

#include "backend/worker.hpp"
#include "backends/shm/imported_region.hpp"

namespace stagewire::backends::shm {

class Outbox;

/// Up to this much is copied by the caller itself: handing it to another thread costs about as much as the
/// copy.
constexpr std::uint64_t kCopiedInline = 256 * 1024;

/// Where the bytes of a request lie.
struct CopyPlan {
  Operation operation = Operation::read;
  std::byte* local = nullptr;
  std::byte* remote = nullptr;
  std::uint64_t total = 0;
};

/// `permission` when the region is not registered for the operation, `invalid_argument` for segments outside
/// it.
Result<CopyPlan> plan_copy(const WorkRequest& request, const Import& remote);
/// Copies `size` bytes of one segment from byte `begin` of it.
void copy_part(const CopyPlan& plan, const Segment& segment, std::uint64_t begin, std::uint64_t size);

class CopyJob final : public backend::Worker::Job {
 public:
  CopyJob(Outbox& outbox, const CopyPlan& plan, const WorkRequest& request);
  bool step() override;
  void abandon() override;

 private:
  Outbox& outbox_;  // cancels us before it goes away
  const CopyPlan plan_;
  const std::uint64_t id_;
  const std::optional<std::uint32_t> notification_;
  const std::vector<Segment> segments_;
  std::size_t segment_ = 0;  // the one that is being copied
  std::uint64_t done_ = 0;   // bytes of it
};

class PopulateJob final : public backend::Worker::Job {
 public:
  PopulateJob(Outbox& outbox, std::shared_ptr<Import> import, std::shared_ptr<RegionMapping> mapping);
  bool step() override;
  void abandon() override;

 private:
  Outbox& outbox_;
  const std::shared_ptr<Import> import_;
  const std::shared_ptr<RegionMapping> mapping_;
  std::uint64_t done_ = 0;
};

}  // namespace stagewire::backends::shm
