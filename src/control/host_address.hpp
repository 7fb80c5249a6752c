// Addresses to bind and to tell others (R10, R12).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire::control {

/// One address of one interface of this machine.
struct InterfaceAddress {
  std::string interface;
  std::string address;       ///< numeric, IPv6 without brackets
  bool up = true;
  bool loopback = false;
  bool link_local = false;
};

/// getifaddrs(), no packet is sent.
std::vector<InterfaceAddress> interface_addresses();

struct AddressChoice {
  std::string address;
  std::string reason;        ///< "eth0, the only routable one" or the candidates and why this one
};

/// What `host: auto` means: the address of the interface with the default route, else the first routable one (IPv4
/// before IPv6), else, with `loopback_is_enough` (all peers are on this host), 127.0.0.1. Never 127.0.1.1.
Result<AddressChoice> choose_address(const std::vector<InterfaceAddress>& candidates, std::string_view default_interface,
                                     bool loopback_is_enough);

/// The interface of the default route, from /proc/net/route and ipv6_route; empty when there is none.
std::string default_route_interface();

/// "tcp://10.0.0.2:50051", "tcp://[fe80::1%eth0]:50051"; accepts IPv6 with or without brackets.
Result<std::string> tcp_endpoint(std::string_view host, int port);

/// Numeric address for a name; a name that resolves only to 127.0.1.1 is refused with advice. Reads /etc/hosts and
/// asks the resolver (blocks; for start-up only).
Result<std::string> resolve_host(std::string_view host);

/// "pid 4242 (stagewire serve ...)" of the process that listens on this TCP port here, empty when it cannot be found.
std::string port_owner(int port);

}  // namespace stagewire::control
