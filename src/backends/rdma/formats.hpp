// Every byte of the rdma backend that leaves the process other than in a frame: addresses, remote keys, and
// the greetings by which two links agree on their queue pairs. msgpack arrays; docs/rdma.md has the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "stagewire/memory.hpp"
#include "stagewire/result.hpp"

namespace stagewire::backends::rdma {

/// Raised when an address, a greeting or a frame changes its meaning.
constexpr std::uint32_t kFormatVersion = 2;
constexpr std::size_t kMaxRails = 8;
constexpr std::size_t kMaxQueuePairs = 32;

/// One port of one device, as a peer has to know it.
struct Rail {
  std::string name;               ///< "mlx5_0:1", for logs
  bool ethernet = false;          ///< RoCE; else InfiniBand
  std::vector<std::uint8_t> gid;  ///< 16 bytes
  std::uint32_t lid = 0;          ///< InfiniBand
  std::uint32_t mtu = 0;          ///< bytes
  std::uint32_t greeter = 0;      ///< number of the queue pair that takes greetings
};

/// How to reach one backend object. Whoever has it may connect: it travels over the authenticated control
/// plane only.
struct Address {
  std::uint32_t version = kFormatVersion;
  std::uint64_t instance = 0;  ///< random
  std::uint64_t secret = 0;    ///< random; a greeting without it is ignored
  std::vector<Rail> rails;
};

/// Names one registered region.
struct RegionKey {
  std::uint64_t instance = 0;
  std::uint64_t id = 0;
  std::uint64_t token = 0;  ///< random: who was not told it cannot ask for the region
  std::uint64_t base = 0;   ///< the region's address in its owner
  std::uint64_t size = 0;
  std::uint32_t access = 0;         ///< stagewire::Access
  std::vector<std::uint32_t> keys;  ///< one for each rail of the owner
};

/// One end of a link, as the other has to know it.
struct LinkEnd {
  std::uint64_t link = 0;             ///< random, chosen by this end
  std::vector<std::uint32_t> pairs;   ///< numbers of its queue pairs; the first carries frames
  std::uint32_t sequence = 0;         ///< first packet sequence number of each
  std::uint32_t buffers = 0;          ///< frames that it can take
  std::uint32_t message_size = 0;     ///< of a frame's message, at most
  std::uint32_t payload_size = 0;     ///< of a frame's payload, at most
  std::uint32_t payloads = 0;         ///< that it can hold
  std::uint32_t reads = 0;            ///< reads that each of its queue pairs serves at once
  std::uint64_t frames_received = 0;  ///< since the link began: what the other end need not send again
  std::uint32_t frames_freed = 0;     ///< of these, those whose buffers are free again (FrameHeader)
  std::uint32_t payloads_freed = 0;
};

/// The greetings, in the order of a link's life. They travel as datagrams: each may be lost or come twice.
struct Call {  ///< from the one that connects
  std::uint32_t version = kFormatVersion;
  std::uint64_t secret = 0;                 ///< of the one that is called
  std::uint32_t attempt = 0;                ///< counts from 1; another one replaces the link's queue pairs
  std::vector<std::uint32_t> rails;         ///< of the one that is called, for each queue pair
  std::vector<std::uint32_t> caller_rails;  ///< as many
  std::vector<std::uint8_t> address;        ///< the caller's
  LinkEnd end;
};
struct Answer {
  std::uint64_t link = 0;  ///< the caller's
  std::uint32_t attempt = 0;
  LinkEnd end;
};
struct Refusal {  ///< instead of an answer
  std::uint64_t link = 0;
  std::uint32_t attempt = 0;
  std::uint32_t code = 0;  ///< stagewire::ErrorCode
  std::string text;
};
struct Farewell {          ///< from either end, whose queue pairs are gone
  std::uint64_t link = 0;  ///< of the one that is told
};
/// From the caller of a link that is up, over ports that it does not use: does anything get through again?
struct Probe {
  std::uint64_t link = 0;  ///< of the one that is asked
  std::uint32_t rail = 0;  ///< of the one that is asked
  std::uint32_t caller_rail = 0;
};
struct Reached {           ///< the answer, over the same ports
  std::uint64_t link = 0;  ///< the caller's
};
using Greeting = std::variant<Call, Answer, Refusal, Farewell, Probe, Reached>;

std::vector<std::byte> pack(const Address& address);
std::vector<std::byte> pack(const RegionKey& key);
std::vector<std::byte> pack(const Greeting& greeting);
/// All fail with `corrupt` for anything that does not follow the format or its bounds.
Result<Address> unpack_address(std::span<const std::byte> bytes);
Result<RegionKey> unpack_region_key(std::span<const std::byte> bytes);
Result<Greeting> unpack_greeting(std::span<const std::byte> bytes);

}  // namespace stagewire::backends::rdma
