#include "backends/rdma/mori/region.hpp"

#include "backends/rdma/mori/hub.hpp"
#include "backends/rdma/registration.hpp"
#include "base/text.hpp"
#include "stagewire/descriptor.hpp"

namespace stagewire::backends::rdma::mori {

Result<std::unique_ptr<Registration>> Region::create(const std::shared_ptr<Hub>& hub,
                                                     const MemoryRegion& memory, Access access) {
  if (Status ok = check_region(memory); !ok) return ok.error();
  std::unique_ptr<Region> region(new Region(hub, memory, access));
  for (const auto& port : hub->ports) {
    auto handle = port->register_region(memory, verbs_access(access));
    if (!handle) return handle.error();
    region->ports_.push_back(port);
    region->local_keys_.push_back((*handle)->lkey);
    region->handles_.push_back(std::move(*handle));
  }
  MemoryDesc desc;
  desc.engine_key = hub->engine_key;
  desc.id = memory.id;
  desc.data = reinterpret_cast<std::uintptr_t>(memory.data);
  desc.size = memory.size;
  desc.kind = memory.kind;
  desc.device_id = memory.device;
  region->packed_ = desc.pack();
  const std::lock_guard lock(hub->mutex);
  if (allows_read(access) || allows_write(access)) hub->regions[memory.id] = region.get();
  return std::unique_ptr<Registration>(std::move(region));
}

Region::~Region() {
  const std::lock_guard lock(hub_->mutex);
  const auto known = hub_->regions.find(memory_.id);
  if (known != hub_->regions.end() && known->second == this) hub_->regions.erase(known);
}

}  // namespace stagewire::backends::rdma::mori
