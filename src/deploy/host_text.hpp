// Hosts as they are written in a deploy file.
#pragma once

#include <string>

namespace stagewire::deploy {

/// Why this can be no address that a stage binds and a peer calls ("is a multicast address"); empty: it can,
/// or it is a name, which only the resolver knows, or `auto`. Asks the system for nothing but the interface
/// that a zone ("fe80::1%eth0") names.
std::string host_problem(const std::string& host);

}  // namespace stagewire::deploy
