#include "deploy/host_text.hpp"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace stagewire::deploy {
namespace {

constexpr std::size_t kLongestName = 253;

std::string ipv4_problem(std::uint32_t address) {
  if (address == 0) return "means every interface, which no peer can call";
  if (address == UINT32_MAX) return "is the broadcast address, which no stage can bind";
  if (address >> 28U == 0xE) return "is a multicast address, which no stage can bind";
  if (address >> 28U == 0xF || address >> 24U == 0) return "is an address that no machine has";
  return "";
}

std::string ipv6_problem(const in6_addr& address, const std::string& zone) {
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return "means every interface, which no peer can call";
  if (IN6_IS_ADDR_MULTICAST(&address)) return "is a multicast address, which no stage can bind";
  if (IN6_IS_ADDR_LINKLOCAL(&address) && zone.empty())
    return "is the same on every link and needs its interface, as in fe80::1%eth0";
  const bool is_number =
      !zone.empty() && std::all_of(zone.begin(), zone.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!zone.empty() && !is_number && ::if_nametoindex(zone.c_str()) == 0)
    return "names the interface " + zone + ", which this machine has not";
  return "";
}

bool is_name_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

}  // namespace

std::string host_problem(const std::string& host) {
  if (host.empty() || host.find_first_of(" \t\n/") != std::string::npos) return "is no address";
  if (host == "*") return "means every interface, which no peer can call";
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ipv4_problem(ntohl(v4.s_addr));
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string plain = in_brackets ? host.substr(1, host.size() - 2) : host;
  const std::size_t percent = plain.find('%');
  const std::string zone = percent == std::string::npos ? "" : plain.substr(percent + 1);
  in6_addr v6{};
  if (::inet_pton(AF_INET6, plain.substr(0, percent).c_str(), &v6) == 1) {
    if (percent != std::string::npos && zone.empty()) return "names no interface after its %";
    return ipv6_problem(v6, zone);
  }
  if (std::count(host.begin(), host.end(), ':') == 1) return "has a port in it (that belongs to zmq_port)";
  if (::inet_aton(host.c_str(), &v4) != 0) return "is no address in the form 10.0.0.2";
  if (host.size() > kLongestName || !std::all_of(host.begin(), host.end(), is_name_character))
    return "is no address and no name of a host";
  return "";
}

}  // namespace stagewire::deploy
