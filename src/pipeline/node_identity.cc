#include "pipeline/node_identity.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>

namespace stagewire::pipeline {

NodeIdentity node_identity() {
  NodeIdentity identity;
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) identity.name = name.data();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity.boot_id;
  // A host that hides it shares nothing with anybody but those of its name.
  if (identity.boot_id.empty()) identity.boot_id = identity.name;
  std::array<char, PATH_MAX> link{};
  if (::readlink("/proc/self/ns/net", link.data(), link.size() - 1) > 0)
    identity.network = identity.boot_id + " " + link.data();
  return identity;
}

}  // namespace stagewire::pipeline
