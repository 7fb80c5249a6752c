#include "backends/shm/address.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

Result<std::string> read_boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(kPath);
  std::string id;
  if (!(file >> id)) return base::error(ErrorCode::unsupported, "cannot read ", kPath, ": is /proc mounted?");
  return id;
}

Result<std::string> read_network_namespace() {
  constexpr const char* kPath = "/proc/self/ns/net";
  std::array<char, 64> name{};
  const ssize_t size = ::readlink(kPath, name.data(), name.size());
  if (size < 0) return base::system_error(base::text("readlink of ", kPath), errno);
  return std::string(name.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<std::uint64_t> random_u64() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) return base::system_error("getrandom", errno);
  return value;
}

Result<Address> make_address() {
  auto boot_id = read_boot_id();
  if (!boot_id) return boot_id.error();
  auto network = read_network_namespace();
  if (!network) return network.error();
  auto unique = random_u64();
  if (!unique) return unique.error();
  Address address;
  address.boot_id = std::move(*boot_id);
  address.network = std::move(*network);
  address.user = ::geteuid();
  address.process = ::getpid();
  address.socket = base::text("stagewire-", address.process, "-", std::hex, *unique);
  return address;
}

Status can_reach(const Address& from, const Address& to) {
  if (from.version != to.version) {
    return base::error(ErrorCode::unsupported, "shm formats ", from.version, " and ", to.version,
                       " differ: use the same release of stagewire on both sides");
  }
  if (from.boot_id != to.boot_id) {
    return base::error(ErrorCode::unsupported, "another host (boot ids ", from.boot_id, " and ", to.boot_id,
                       ")");
  }
  if (from.network != to.network) {
    return base::error(ErrorCode::unsupported, "another network namespace (", from.network, " and ",
                       to.network, "): let both containers share one");
  }
  if (from.user != to.user) {
    return base::error(ErrorCode::permission, "another user (ids ", from.user, " and ", to.user,
                       "): shared memory is for processes of one user");
  }
  return {};
}

}  // namespace stagewire::backends::shm
