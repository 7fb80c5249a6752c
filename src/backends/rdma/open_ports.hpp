// Which ports of which devices a backend works with.
#pragma once

#include <memory>
#include <vector>

#include "backends/rdma/port.hpp"

namespace stagewire::backends::rdma {

/// Every active port that the settings let through, in their order. `unsupported` when there is none, with
/// what each device lacks.
Result<std::vector<std::shared_ptr<Port>>> open_ports(const Settings& settings);

}  // namespace stagewire::backends::rdma
