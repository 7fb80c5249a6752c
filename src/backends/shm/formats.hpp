// Every byte of the shm backend that leaves the process other than through the ring: addresses, remote keys
// and the messages on the Unix socket. msgpack arrays; docs/backends.md has the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::shm {

/// Raised when a ring, a key or a socket message changes its meaning.
constexpr std::uint32_t kFormatVersion = 1;

/// How to reach one backend object.
struct Address {
  std::uint32_t version = kFormatVersion;
  std::string boot_id;     ///< of the running kernel: the host
  std::string network;     ///< network namespace, in which the socket's name is known
  std::uint32_t user = 0;  ///< effective user id
  std::int32_t process = 0;
  std::string socket;  ///< name of the abstract Unix socket, without its leading zero; unique for ever

  bool operator==(const Address&) const = default;
};

/// Names one registered region.
struct RegionKey {
  std::string socket;  ///< of the owner's address
  std::uint64_t id = 0;
  std::uint64_t token = 0;  ///< random: who was not told it cannot ask for the region
  std::uint64_t size = 0;
  std::uint64_t file_offset = 0;
  std::uint32_t access = 0;  ///< stagewire::Access
};

// The messages on the socket, in the order of a connection's life.
struct Hello {  ///< from the one that connects
  std::uint32_t version = kFormatVersion;
  std::vector<std::byte> address;
};
struct Welcome {  ///< with two descriptors: the inbox's memory, the inbox's doorbell
  std::uint64_t ring_size = 0;
  std::uint32_t slots = 0;
  std::uint32_t slot_size = 0;
};
struct Refusal {  ///< instead of Welcome
  std::uint32_t code = 0;
  std::string text;
};
struct ImportRequest {
  std::uint64_t request = 0;
  std::uint64_t region = 0;
  std::uint64_t token = 0;
};
struct ImportAnswer {  ///< code 0: with one descriptor, the region's file
  std::uint64_t request = 0;
  std::uint32_t code = 0;
  std::string text;
};
struct SpaceFreed {};  ///< to the one that connected, once after it met a full ring or had no slot

using SocketMessage = std::variant<Hello, Welcome, Refusal, ImportRequest, ImportAnswer, SpaceFreed>;

std::vector<std::byte> pack(const Address& address);
std::vector<std::byte> pack(const RegionKey& key);
std::vector<std::byte> pack(const SocketMessage& message);

/// All fail with `corrupt` for anything that does not follow the format.
Result<Address> unpack_address(std::span<const std::byte> bytes);
Result<RegionKey> unpack_region_key(std::span<const std::byte> bytes);
Result<SocketMessage> unpack_message(std::span<const std::byte> bytes);

}  // namespace stagewire::backends::shm
