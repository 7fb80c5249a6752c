// Who can reach whom: one host, one user, one network namespace.
#pragma once

#include "backends/shm/formats.hpp"

namespace stagewire::backends::shm {

/// A new address for one backend object of this process.
Result<Address> make_address();

/// Whether two backends with these addresses reach each other; symmetric. The text names what differs.
Status can_reach(const Address& from, const Address& to);

/// 64 random bits from the kernel.
Result<std::uint64_t> random_u64();

}  // namespace stagewire::backends::shm
