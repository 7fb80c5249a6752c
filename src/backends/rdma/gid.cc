#include "backends/rdma/gid.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <tuple>

#include "base/text.hpp"

namespace stagewire::backends::rdma {
namespace {

// ::ffff:a.b.c.d, RFC 4291 section 2.5.5.2.
bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

GidScope scope_of_ipv4(const std::uint8_t* ip) {
  if (ip[0] == 0 || ip[0] == 127) return GidScope::unusable;
  if (ip[0] == 169 && ip[1] == 254) return GidScope::link_local;
  const bool is_private = ip[0] == 10 || (ip[0] == 172 && (ip[1] & 0xf0) == 16) ||
                          (ip[0] == 192 && ip[1] == 168) ||
                          (ip[0] == 100 && (ip[1] & 0xc0) == 64);  // RFC 6598: shared by carriers
  return is_private ? GidScope::private_network : GidScope::routable;
}

std::string_view name_of(GidScope scope) {
  switch (scope) {
    case GidScope::unusable:
      return "unusable";
    case GidScope::link_local:
      return "link-local";
    case GidScope::private_network:
      return "private";
    case GidScope::routable:
      return "routable";
  }
  return "?";
}

std::string_view name_of(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband:
      return "InfiniBand";
    case GidKind::roce_v1:
      return "RoCE v1";
    case GidKind::roce_v2:
      return "RoCE v2";
  }
  return "?";
}

}  // namespace

GidScope scope_of(const Gid& gid) {
  if (is_ipv4(gid)) return scope_of_ipv4(gid.data() + 12);
  if (std::all_of(gid.begin(), gid.begin() + 15, [](std::uint8_t byte) { return byte == 0; })) {
    return GidScope::unusable;  // unspecified, or loopback
  }
  if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) return GidScope::link_local;
  if ((gid[0] & 0xfe) == 0xfc) return GidScope::private_network;  // RFC 4193
  return gid[0] == 0xff ? GidScope::unusable : GidScope::routable;
}

Result<GidEntry> choose_gid(std::span<const GidEntry> table, std::optional<int> wanted) {
  if (wanted) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const GidEntry& e) { return e.index == *wanted; });
    if (found != table.end()) return *found;
    std::string known;
    for (const GidEntry& entry : table) known += (known.empty() ? "" : "; ") + describe(entry);
    return base::error(ErrorCode::invalid_argument, "GID index ", *wanted,
                       " is not in the port's table; it has: ", known.empty() ? "none" : known);
  }
  const auto rank = [](const GidEntry& entry) {
    return std::tuple(scope_of(entry.gid), entry.kind, is_ipv4(entry.gid), -entry.index);
  };
  const auto best = std::max_element(table.begin(), table.end(),
                                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (best == table.end() || scope_of(best->gid) == GidScope::unusable) {
    return base::error(ErrorCode::unsupported, "none of the port's ", table.size(),
                       " GIDs can be used: give its network interface an address");
  }
  return *best;
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = is_ipv4(gid);
  ::inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.data() + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

std::string describe(const GidEntry& entry) {
  return base::text("GID ", entry.index, ", ", name_of(entry.kind), ", ", gid_text(entry.gid), " (",
                    name_of(scope_of(entry.gid)), ")");
}

}  // namespace stagewire::backends::rdma
