// Which of a port's addresses (GIDs) to use.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "stagewire/result.hpp"

namespace stagewire::backends::rdma {

using Gid = std::array<std::uint8_t, 16>;

enum class GidKind { infiniband, roce_v1, roce_v2 };

struct GidEntry {
  int index = 0;
  Gid gid{};
  GidKind kind = GidKind::infiniband;
};

/// How far a GID's address reaches, the best last.
enum class GidScope { unusable, link_local, private_network, routable };

GidScope scope_of(const Gid& gid);

/// The one that the most peers can reach: by scope (routable before private before link-local), then RoCE v2
/// before v1, then an IPv4 address before an IPv6 one, then the lowest index. An index that is `wanted` is
/// taken as it is. `invalid_argument` for a wanted one that is not in the table, `unsupported` when the table
/// has none that can be used.
Result<GidEntry> choose_gid(std::span<const GidEntry> table, std::optional<int> wanted);

/// "10.0.0.1" for a mapped IPv4 address, else the IPv6 form.
std::string gid_text(const Gid& gid);
/// "GID 3, RoCE v2, 10.0.0.1 (private)".
std::string describe(const GidEntry& entry);

}  // namespace stagewire::backends::rdma
