#include "control/host_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>

#include "base/log.hpp"
#include "base/text.hpp"

namespace stagewire::control {
namespace {

constexpr unsigned kRouteUp = 0x1;        // RTF_UP
constexpr unsigned kRouteReject = 0x200;  // RTF_REJECT
constexpr std::string_view kDebianOwnName = "127.0.1.1";

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

/// The wildcard addresses stand for every address of the machine, so they name none.
bool is_wildcard(std::string_view address) {
  return address == "0.0.0.0" || address == "::";
}

std::string_view without_brackets(std::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') return host.substr(1, host.size() - 2);
  return host;
}

bool link_local(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254.0.0/16
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

std::string numeric_text(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

/// Networks inside this machine, between containers or virtual machines: no other host has a route to them.
bool internal_bridge(std::string_view interface) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"docker", "br-",     "virbr", "veth",
                                                         "cni",    "flannel", "cali",  "podman"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return interface.substr(0, prefix.size()) == prefix; });
}

std::string list(const std::vector<InterfaceAddress>& candidates) {
  std::string out;
  for (const InterfaceAddress& candidate : candidates) {
    out += base::text(out.empty() ? "" : ", ", candidate.address, " (", candidate.interface,
                      candidate.up ? "" : ", down", candidate.link_local ? ", link-local" : "", ")");
  }
  return out.empty() ? "none" : out;
}

/// The first that satisfies `wanted`, IPv4 before IPv6.
template <typename Predicate>
const InterfaceAddress* pick(const std::vector<InterfaceAddress>& candidates, const Predicate& wanted) {
  for (const bool ipv6 : {false, true}) {
    for (const InterfaceAddress& candidate : candidates) {
      if (is_ipv6(candidate.address) == ipv6 && wanted(candidate)) return &candidate;
    }
  }
  return nullptr;
}

struct Route {
  std::string interface;
  unsigned long metric = std::numeric_limits<unsigned long>::max();
};

void offer(Route& best, const std::string& interface, unsigned long metric) {
  if (metric < best.metric) best = {interface, metric};
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, &freeifaddrs);
  std::vector<InterfaceAddress> out;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    out.push_back({.interface = entry->ifa_name,
                   .address = numeric_text(*entry->ifa_addr),
                   .up = (entry->ifa_flags & IFF_UP) != 0,
                   .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                   .link_local = link_local(*entry->ifa_addr)});
  }
  return out;
}

Result<AddressChoice> choose_address(const std::vector<InterfaceAddress>& candidates,
                                     std::string_view default_interface, bool loopback_is_enough) {
  const auto routable = [](const InterfaceAddress& a) { return a.up && !a.loopback && !a.link_local; };
  const auto on_default_route = [&](const InterfaceAddress& a) {
    return routable(a) && a.interface == default_interface;
  };
  const auto reachable = [&](const InterfaceAddress& a) {
    return routable(a) && !internal_bridge(a.interface);
  };
  const auto loopback = [](const InterfaceAddress& a) {
    return a.up && (a.address == "127.0.0.1" || a.address == "::1");
  };

  const auto chosen = [&](const InterfaceAddress& a, std::string_view why) {
    return AddressChoice{a.address, base::text(a.interface, " ", why, "; candidates: ", list(candidates))};
  };
  if (const auto* found = pick(candidates, on_default_route)) return chosen(*found, "has the default route");
  if (const auto* found = pick(candidates, reachable)) return chosen(*found, "is the first routable one");
  if (loopback_is_enough) {
    if (const auto* found = pick(candidates, loopback)) {
      return chosen(*found, "is the only one that every process of this host reaches");
    }
  }
  return base::error(ErrorCode::not_found,
                     "host: auto finds no address that others can reach (seen: ", list(candidates),
                     "); write the address to use as `host`");
}

std::string default_route_interface(const std::string& proc) {
  Route best;
  std::string line;
  std::ifstream v4(proc + "/net/route");
  std::getline(v4, line);  // the heading
  while (std::getline(v4, line)) {
    std::istringstream fields(line);
    std::string interface, target, gateway, mask;
    unsigned flags = 0;
    unsigned long refs = 0, uses = 0, metric = 0;
    fields >> interface >> target >> gateway >> std::hex >> flags >> std::dec >> refs >> uses >> metric >>
        mask;
    if (!fields || target != "00000000" || mask != "00000000") continue;
    if ((flags & kRouteUp) != 0 && (flags & kRouteReject) == 0) offer(best, interface, metric);
  }
  if (!best.interface.empty()) return best.interface;

  std::ifstream v6(proc + "/net/ipv6_route");
  while (std::getline(v6, line)) {
    std::istringstream fields(line);
    std::string target, target_bits, source, source_bits, next_hop, interface;
    unsigned long metric = 0, refs = 0, uses = 0;
    unsigned flags = 0;
    fields >> target >> target_bits >> source >> source_bits >> next_hop >> std::hex >> metric >> refs >>
        uses >> flags >> interface;
    if (!fields || target != std::string(32, '0') || target_bits != "00") continue;
    if ((flags & kRouteUp) != 0 && (flags & kRouteReject) == 0) offer(best, interface, metric);
  }
  return best.interface;
}

bool is_numeric_address(std::string_view host) {
  const std::string text(without_brackets(host));
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return !host.empty() && host.front() != '[';
  in6_addr v6{};
  const std::size_t zone = text.find('%');
  if (zone != std::string::npos && zone + 1 == text.size()) return false;
  return inet_pton(AF_INET6, text.substr(0, zone).c_str(), &v6) == 1;
}

Result<std::string> tcp_endpoint(std::string_view host, int port) {
  if (!is_numeric_address(host)) {
    return base::error(ErrorCode::invalid_argument, "'", host, "' is not an IPv4 or IPv6 address in digits");
  }
  if (port < 0 || port > 65535) {
    return base::error(ErrorCode::invalid_argument, "port ", port, " of ", host, " is not within 0..65535");
  }
  const std::string_view address = without_brackets(host);
  if (is_ipv6(address)) return base::text("tcp://[", address, "]:", port);
  return base::text("tcp://", address, ":", port);
}

bool is_loopback(std::string_view address) {
  return address == "::1" || address.starts_with("127.");
}

Result<std::string> resolve_host(std::string_view host) {
  if (is_numeric_address(host)) return std::string(without_brackets(host));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string name(host);
  if (const int failure = getaddrinfo(name.c_str(), nullptr, &hints, &found); failure != 0) {
    return base::error(ErrorCode::invalid_argument, "host '", name,
                       "' does not resolve: ", gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
      if (entry->ai_family != family) continue;
      std::string address = numeric_text(*entry->ai_addr);
      if (!address.empty() && address != kDebianOwnName) return address;
    }
  }
  return base::error(ErrorCode::invalid_argument, "host '", name, "' resolves only to ", kDebianOwnName,
                     ", which no other host can reach; write an address or `auto`, or mend /etc/hosts");
}

Result<std::string> choose_listen_address(const std::string& host, bool loopback_is_enough) {
  if (host == "auto") {
    Result<AddressChoice> choice =
        choose_address(interface_addresses(), default_route_interface(), loopback_is_enough);
    if (!choice) return choice.error();
    base::log(LogLevel::info, "control", "host: auto is ", choice->address, ": ", choice->reason);
    return choice->address;
  }
  Result<std::string> address = resolve_host(host);
  if (!address) return address;
  if (is_wildcard(*address)) {
    return base::error(ErrorCode::invalid_argument, "host ", *address,
                       " stands for every address and cannot be told to peers; write one address, or `auto`");
  }
  return address;
}

}  // namespace stagewire::control
