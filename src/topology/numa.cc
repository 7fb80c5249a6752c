#include "topology/numa.hpp"

#include <sched.h>

#include <fstream>

#include "base/text.hpp"

namespace stagewire::topology {
namespace {

std::optional<int> number_in(const std::string& file, int place = 0) {
  std::ifstream in(file);
  int number = 0;
  for (int i = 0; i <= place; ++i) {
    if (!(in >> number)) return std::nullopt;
  }
  return number;
}

}  // namespace

std::optional<int> node_of_rdma_device(std::string_view device, const std::string& root) {
  const auto node = number_in(base::text(root, "/sys/class/infiniband/", device, "/device/numa_node"));
  return node && *node >= 0 ? node : std::nullopt;  // -1: a machine with one node, or a device without a slot
}

std::optional<int> current_node() {
  unsigned cpu = 0;
  unsigned node = 0;
  return ::getcpu(&cpu, &node) == 0 ? std::optional(static_cast<int>(node)) : std::nullopt;
}

// One line of distances, to node 0, 1, ... of those that are online in the usual case that none is missing.
std::optional<int> node_distance(int from, int to, const std::string& root) {
  if (to < 0) return std::nullopt;
  return number_in(base::text(root, "/sys/devices/system/node/node", from, "/distance"), to);
}

}  // namespace stagewire::topology
