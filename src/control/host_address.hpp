// Addresses to bind and to tell others (R10, R12). Nothing here sends a packet, but for resolve_host(), which
// asks the resolver when it is given a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stagewire/result.hpp"

namespace stagewire::control {

/// One address of one interface of this machine.
struct InterfaceAddress {
  std::string interface;
  std::string address;  ///< numeric, IPv6 without brackets, link-local IPv6 with its zone ("fe80::1%eth0")
  bool up = true;
  bool loopback = false;
  bool link_local = false;
};

/// getifaddrs(); empty when the system refuses.
std::vector<InterfaceAddress> interface_addresses();

struct AddressChoice {
  std::string address;
  std::string reason;  ///< "eth0 has the default route; candidates: 10.0.0.2 (eth0), 172.17.0.1 (docker0)"
};

/// What `host: auto` means: the address of the interface with the default route, else the first routable one,
/// IPv4 before IPv6 in both cases; else, with `loopback_is_enough` (all peers are on this host), 127.0.0.1 or
/// ::1. Bridges of container engines count as routable only when they carry the default route. Never another
/// loopback address (127.0.1.1). `not_found`: there is none, the message lists what was seen.
Result<AddressChoice> choose_address(const std::vector<InterfaceAddress>& candidates,
                                     std::string_view default_interface, bool loopback_is_enough);

/// The interface of the default route, from net/route and net/ipv6_route below `proc`; empty when there is
/// none.
std::string default_route_interface(const std::string& proc = "/proc");

/// Whether this is an IPv4 or IPv6 address in digits (with or without brackets, a zone is allowed).
bool is_numeric_address(std::string_view host);

/// Whether only this host reaches it; takes numeric addresses without brackets.
bool is_loopback(std::string_view address);

/// "tcp://10.0.0.2:50051", "tcp://[fe80::1%eth0]:50051"; takes numeric addresses, IPv6 with or without
/// brackets. `invalid_argument` for anything else and for ports outside 0..65535.
Result<std::string> tcp_endpoint(std::string_view host, int port);

/// Numeric address (without brackets) for a name, IPv4 before IPv6; an address in digits is returned as it
/// is. Blocks while the resolver is asked: for start-up only. `invalid_argument`: it does not resolve, or
/// only to 127.0.1.1 (Debian's entry for the machine's own name, which no other host can reach).
Result<std::string> resolve_host(std::string_view host);

/// The address to bind and to tell peers for a `host` as the user wrote it: "auto" as choose_address()
/// chooses among those of this machine (and logs why), anything else as resolve_host() does.
/// `invalid_argument` also for the wildcards 0.0.0.0 and ::, which peers could not be told.
Result<std::string> choose_listen_address(const std::string& host, bool loopback_is_enough);

/// "pid 4242 (stagewire serve ...)": the process that holds this TCP port on `address` or on all addresses;
/// "a process of user 0" when it belongs to somebody whose descriptors we may not look at; empty when it
/// cannot be found.
std::string port_owner(std::string_view address, int port, const std::string& proc = "/proc");

}  // namespace stagewire::control
