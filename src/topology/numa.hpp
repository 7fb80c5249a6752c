// Which memory node a device hangs on, and how far one node is from another: read from sysfs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagewire::topology {

/// The node of a network device's PCI slot; nullopt when it has none or says nothing. `root` is where /sys is
/// looked for; tests give their own.
std::optional<int> node_of_rdma_device(std::string_view device, const std::string& root = "");

/// The node that the calling thread runs on now, where what it touches first will lie; nullopt when the
/// system does not tell.
std::optional<int> current_node();

/// As the firmware says (10 = the same node, more = farther); nullopt when it says nothing.
std::optional<int> node_distance(int from, int to, const std::string& root = "");

}  // namespace stagewire::topology
