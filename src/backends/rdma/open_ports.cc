#include "backends/rdma/open_ports.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "topology/numa.hpp"

namespace stagewire::backends::rdma {
namespace {

// How far a device's memory node is from the one of this thread, which is about to make the pool. Unknown
// ones are taken to be near.
int distance_of(const std::string& device) {
  const auto here = topology::current_node();
  const auto there = topology::node_of_rdma_device(device);
  return here && there ? topology::node_distance(*here, *there).value_or(0) : 0;
}

}  // namespace

Result<std::vector<std::shared_ptr<Port>>> open_ports(const Settings& settings) {
  const auto verbs = Verbs::open();
  if (!verbs) return verbs.error();
  int count = 0;
  ibv_device** devices = (*verbs)->get_device_list(&count);
  if (devices == nullptr || count == 0) {
    if (devices != nullptr) (*verbs)->free_device_list(devices);
    return base::error(
        ErrorCode::unsupported,
        "this machine has no RDMA device (none in /sys/class/infiniband, or its driver's library "
        "is missing: apt-get install ibverbs-providers)");
  }
  // By the order of the user, then by nearness.
  std::vector<std::pair<std::pair<std::size_t, int>, std::shared_ptr<Port>>> found;
  std::string refused;
  for (int i = 0; i < count; ++i) {
    const std::string device = (*verbs)->get_device_name(devices[i]);
    for (int number = 1; number <= 2; ++number) {  // no device has more ports
      const auto rank = settings.devices.rank(device, number);
      if (!rank) continue;
      auto port = Port::open(**verbs, devices[i], static_cast<std::uint8_t>(number), settings);
      if (port) {
        found.emplace_back(std::pair(*rank, distance_of(device)), std::move(*port));
      } else if (number == 1) {
        refused += "; " + port.error().message();
      }
    }
  }
  (*verbs)->free_device_list(devices);
  if (found.empty()) {
    return base::error(ErrorCode::unsupported, "none of ", count,
                       " RDMA devices can be used (device_name, MORI_RDMA_DEVICES)", refused);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (found.size() > kMaxRails) found.resize(kMaxRails);
  std::vector<std::shared_ptr<Port>> ports;
  for (auto& [rank, port] : found) ports.push_back(std::move(port));
  return ports;
}

}  // namespace stagewire::backends::rdma
