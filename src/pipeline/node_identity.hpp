// Who this node is, and which others share something with it.
#pragma once

#include <string>

namespace stagewire::pipeline {

struct NodeIdentity {
  std::string name;     ///< of the host
  std::string boot_id;  ///< the kernel's: nodes with the same one share CLOCK_MONOTONIC
  std::string network;  ///< the kernel and the network namespace: who shares it shares the loopback interface
};

NodeIdentity node_identity();

}  // namespace stagewire::pipeline
