#include "backends/rdma/registration.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

std::vector<std::byte> key_of(std::uint64_t instance, std::uint64_t id, std::uint64_t token,
                              const MemoryRegion& region, Access access, const RegisteredRange& range) {
  RegionKey key;
  key.instance = instance;
  key.id = id;
  key.token = token;
  key.base = reinterpret_cast<std::uintptr_t>(region.data);
  key.size = region.size;
  key.access = static_cast<std::uint32_t>(access);
  for (const auto& handle : range.handles) key.keys.push_back(handle->rkey);
  return pack(key);
}

}  // namespace

int verbs_access(Access access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if (allows_read(access)) flags |= IBV_ACCESS_REMOTE_READ;
  if (allows_write(access)) flags |= IBV_ACCESS_REMOTE_WRITE;
  return flags;
}

Status check_region(const MemoryRegion& region) {
  if (region.kind == MemoryKind::unknown) {
    return base::error(ErrorCode::invalid_argument, "a region of ", region.size,
                       " bytes that is neither host nor device memory");
  }
  if (region.data == nullptr || region.size == 0) {
    return base::error(ErrorCode::invalid_argument, "a region of ", region.size,
                       " bytes cannot be registered");
  }
  return {};
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  const ssize_t got = ::getrandom(&number, sizeof number, 0);
  STAGEWIRE_CHECK(got == static_cast<ssize_t>(sizeof number), "the kernel has random numbers");
  return number;
}

Result<std::shared_ptr<const RegisteredRange>> RegionTable::range(
    const std::vector<std::shared_ptr<Port>>& ports, const MemoryRegion& region, Access access) {
  const RangeName name{region.data, region.size, verbs_access(access)};
  // Two who register the same range at once shall not do it twice.
  const std::lock_guard lock(ranges_mutex_);
  if (auto known = ranges_[name].lock()) return known;
  auto made = std::make_shared<RegisteredRange>();
  for (const auto& port : ports) {
    auto handle = port->register_region(region, std::get<2>(name));
    if (!handle) {
      ranges_.erase(name);
      return handle.error();
    }
    made->ports.push_back(port);
    made->local_keys.push_back((*handle)->lkey);
    made->handles.push_back(std::move(*handle));
  }
  std::erase_if(ranges_, [&](const auto& entry) { return entry.first != name && entry.second.expired(); });
  std::shared_ptr<const RegisteredRange> shared = std::move(made);
  ranges_[name] = shared;
  return shared;
}

std::uint64_t RegionTable::add(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  tokens_[next_id_] = token;
  return next_id_++;
}

void RegionTable::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  tokens_.erase(id);
}

Status RegionTable::check(std::uint64_t id, std::uint64_t token) const {
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(id);
  if (found != tokens_.end() && found->second == token) return {};
  return base::error(ErrorCode::not_found, "region ", id, " is not registered (any more)");
}

Result<std::unique_ptr<Registration>> RdmaRegistration::create(
    std::shared_ptr<RegionTable> table, const std::vector<std::shared_ptr<Port>>& ports,
    const MemoryRegion& region, Access access) {
  if (Status ok = check_region(region); !ok) return ok.error();
  auto range = table->range(ports, region, access);
  if (!range) return range.error();
  return std::unique_ptr<Registration>(
      new RdmaRegistration(std::move(table), std::move(*range), region, access));
}

RdmaRegistration::RdmaRegistration(std::shared_ptr<RegionTable> table,
                                   std::shared_ptr<const RegisteredRange> range, const MemoryRegion& region,
                                   Access access)
    : table_(std::move(table)),
      range_(std::move(range)),
      memory_(region),
      token_(random_number()),
      id_(table_->add(token_)),
      packed_key_(key_of(table_->instance(), id_, token_, region, access, *range_)) {}

RdmaRegistration::~RdmaRegistration() {
  table_->remove(id_);
}

std::optional<Status> Import::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Import::end(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!status_) status_ = status;
}

}  // namespace stagewire::backends::rdma
