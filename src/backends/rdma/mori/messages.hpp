// What MORI-IO's engines say to each other when they set up transfers, as they say it: msgpack arrays in a
// frame of TCP, and the notification that follows a transfer over the queue pair. docs/mori.md has the
// tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::rdma::mori {

/// Which device some memory is near to.
struct Place {
  int device = -1;
  MemoryKind kind = MemoryKind::cpu;
  int numa_node = -1;
  auto operator<=>(const Place&) const = default;
};

/// Both ends' memory, as seen by the one that asks.
struct Places {
  Place local;
  Place remote;
  auto operator<=>(const Places&) const = default;
};

/// A queue pair, as its peer has to know it.
struct EndpointHandle {
  std::uint32_t sequence = 0;  ///< MORI-IO always starts with 0
  std::uint32_t number = 0;
  std::uint32_t port = 1;
  std::uint32_t lid = 0;               ///< InfiniBand; 0 on Ethernet
  std::array<std::byte, 16> gid{};     ///< Ethernet; not initialised by MORI-IO on InfiniBand
  std::array<std::byte, 6> address{};  ///< of the link layer; not initialised by MORI-IO, never looked at
};

/// "Connect this queue pair of mine with one of yours." Answered with the same, the other side's.
struct RegisterEndpoint {
  std::string engine_key;  ///< of whoever sends it
  Places places;
  std::uint32_t device = 0;  ///< the sender's number for its port
  EndpointHandle endpoint;
  std::uint32_t nic_rank = 0;
  int rail = -1;  ///< the sender's `device` again; -1 = not said
};

/// "What is the key of this region of yours, on this port of yours?" Answered with the same, filled in; of
/// an unknown region with a size of 0.
struct AskRegion {
  std::string engine_key;  ///< of the one that is asked
  std::uint32_t device = 0;
  std::uint32_t id = 0;
  std::uint64_t address = 0;
  std::uint32_t local_key = 0;  ///< MORI-IO fills it in; of no use to anybody else, so we do not
  std::uint32_t remote_key = 0;
  std::uint64_t size = 0;
};

using Message = std::variant<RegisterEndpoint, AskRegion>;

/// In front of each message: its kind (a byte), its size (4 bytes, the highest first).
constexpr std::size_t kHeaderSize = 5;
/// MORI-IO's own limit.
constexpr std::size_t kMaxBody = 1 << 20;
/// What one of the messages above can need.
constexpr std::size_t kMostExpected = 4096;

/// The whole frame.
std::vector<std::byte> encode(const Message& message);
/// Of a frame that begins with these kHeaderSize bytes; `corrupt` for a kind or a size that no message has.
Result<std::size_t> body_size(std::span<const std::byte> header);
/// Takes a whole frame. `corrupt` names the field that is wrong.
Result<Message> decode(std::span<const std::byte> frame);

/// Sent over each queue pair of a transfer when its bytes have been sent: 16 bytes, little-endian.
struct Notification {
  std::uint64_t transfer = 0;
  std::int32_t index = 0;  ///< of the queue pair
  std::int32_t count = 0;  ///< of queue pairs, so of notifications
};
constexpr std::size_t kNotificationSize = 16;
constexpr std::int32_t kMostPairs = 1024;  ///< of one transfer
std::array<std::byte, kNotificationSize> encode(const Notification& notification);
/// `corrupt` for another size, or an index that is not below a positive count.
Result<Notification> decode_notification(std::span<const std::byte> bytes);

}  // namespace stagewire::backends::rdma::mori
