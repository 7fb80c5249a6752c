// The messages between stagewire ends, and the original's. Values only, no sockets. docs/protocol.md
// describes each field and shows bytes.
//
// Ours: the 4 bytes "SW1\0" and a msgpack array [type, fields...]. An array may be longer than what is known
// here (extra elements are ignored) and must not be shorter. The original's: see OriginalRequest below. Keys
// and texts are bytes without a promised encoding; keys are views, in a decoded message into its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stagewire/descriptor.hpp"
#include "stagewire/payload.hpp"
#include "stagewire/result.hpp"

namespace stagewire::wire {

/// First on every connection, in both directions: who we are and how we are reached.
struct Hello {
  std::uint32_t protocol = 1;
  std::vector<std::byte> engine;  ///< EngineDesc::pack()
  std::vector<std::byte> pool;    ///< MemoryDesc::pack() of the connector's pool, empty when there is none
  std::uint64_t lease_limit = 0;  ///< bytes of that pool that one receiver may hold by lease
  bool wants_reply = false;
  bool operator==(const Hello&) const = default;
};

/// The receiver wants the key as soon as it is there. Lasts until Ready, Unwatch, or a Gone other than
/// not_found.
struct Watch {
  std::string_view key;
  bool answer_now = false;  ///< also tell at once when it is not there: Gone(not_found); the watch goes on
  bool eager = true;        ///< the payload may ride in Ready
  bool wake = true;         ///< somebody waits for Ready; else it may lie until the receiver looks
  bool again = false;       ///< changes the watch sent before; when that was answered already, Nudge
  std::uint64_t watch = 0;  ///< the receiver's number for it: a later watch of the same key has another
  bool operator==(const Watch&) const = default;
};

struct Unwatch {
  std::string_view key;
  std::uint64_t watch = 0;  ///< the one that ends; 0 = the payload had come already
  bool abandoned = false;   ///< it is not wanted any more; else only forgotten
  bool operator==(const Unwatch&) const = default;
};

/// What kind of payload a block holds.
enum class PayloadKind : std::uint32_t { bytes = 0, tensor = 1, object = 2 };

/// The key is there. lease 0: the payload came with this message. Else the block at [offset, offset+size) of
/// the sender's pool is pinned for the receiver until Release.
struct Ready {
  std::string_view key;
  std::uint64_t lease = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  PayloadKind kind = PayloadKind::bytes;
  std::uint32_t dtype = 0;  ///< DType, for kind tensor
  std::vector<std::int64_t> shape;
  std::uint64_t put_time_ns = 0;  ///< CLOCK_MONOTONIC of the sender at put(); comparable on one host only
  std::uint64_t watch = 0;        ///< that it answers
  bool operator==(const Ready&) const = default;
};

/// The receiver is done with a pinned block. consumed: the payload was taken, drop it; else it stays
/// published.
struct Release {
  std::uint64_t lease = 0;
  bool consumed = true;
  bool operator==(const Release&) const = default;
};

/// The watched key will not come; with code not_found: it is not there yet (the answer to answer_now).
struct Gone {
  std::string_view key;
  std::uint32_t code = 0;  ///< ErrorCode
  std::string reason;
  std::uint64_t watch = 0;  ///< that it answers
  bool operator==(const Gone&) const = default;
};

/// Write route: the receiver grants a place for the sender to write into. Answered by PullDone.
struct Pull {
  std::uint64_t id = 0;
  std::string_view key;
  std::vector<std::byte> memory;  ///< MemoryDesc::pack() of the granted region
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool operator==(const Pull&) const = default;
};

/// No byte of this pull will be written any more. code 0: all of it has arrived.
struct PullDone {
  std::uint64_t id = 0;
  std::uint32_t code = 0;
  std::string reason;
  bool operator==(const PullDone&) const = default;
};

/// The receiver no longer wants the pull. Always answered by PullDone (with `cancelled`, or with what came
/// first).
struct Cancel {
  std::uint64_t id = 0;
  bool operator==(const Cancel&) const = default;
};

/// Answered by Pong, with the same id, behind everything that was sent before.
struct Ping {
  std::uint64_t id = 0;
  bool operator==(const Ping&) const = default;
};
struct Pong {
  std::uint64_t id = 0;
  bool operator==(const Pong&) const = default;
};

/// Something the peer sent could not be used.
struct Failure {
  std::uint32_t code = 0;
  std::string reason;
  bool operator==(const Failure&) const = default;
};

/// Sent when a connector closes: nothing more will come, nothing more is wanted.
struct Bye {
  bool operator==(const Bye&) const = default;
};

/// Has nothing to say: it makes the receiver look at what came before it.
struct Nudge {
  bool operator==(const Nudge&) const = default;
};

using Message = std::variant<Hello, Watch, Unwatch, Ready, Release, Gone, Pull, PullDone, Cancel, Failure,
                             Bye, Nudge, Ping, Pong>;

/// Longest message that decode() accepts.
inline constexpr std::size_t kMaxMessageSize = 64 * 1024;
/// Longest key, bytes. The shortest has one.
inline constexpr std::size_t kMaxKeySize = 1024;
/// Longest reason, bytes; encode() cuts longer ones.
inline constexpr std::size_t kMaxReasonSize = 2048;
/// Longest packed EngineDesc or MemoryDesc.
inline constexpr std::size_t kMaxDescriptorSize = 24 * 1024;

/// Appends the message's bytes to `out` (which the caller reuses: no allocation once it has grown). The
/// limits above are the caller's to keep; a peer refuses a message beyond them.
void encode(const Message& message, std::vector<std::byte>& out);
/// Whether the bytes start like one of ours.
bool is_message(std::span<const std::byte> bytes);
/// `corrupt` says which field of which message is wrong; `unsupported` is a well-formed message of a type
/// that is not known here (a newer peer's).
Result<Message> decode(std::span<const std::byte> bytes);

// --- The original's messages (MoriTransferEngineConnector), byte for byte
// ---------------------------------------

inline constexpr std::string_view kTransferDone = "trans_done";
inline constexpr std::string_view kTransferError = "trans_error";
inline constexpr std::string_view kQueryPrefix = "query_info";
inline constexpr std::string_view kInfoNotFound = "info_not_found";
/// Longest message of the original's kind that is accepted.
inline constexpr std::size_t kMaxOriginalSize = 1024 * 1024;

/// "query_info" followed by a msgpack map {request_id}.
struct OriginalQuery {
  std::string request_id;
  bool operator==(const OriginalQuery&) const = default;
};
/// msgpack map {request_id, data_size, is_fast_path}.
struct OriginalQueryResponse {
  std::string request_id;
  std::uint64_t data_size = 0;
  bool is_fast_path = false;
  bool operator==(const OriginalQueryResponse&) const = default;
};
/// msgpack map {request_id, engine_desc_packed, mem_desc_packed, dst_offset, length}.
struct OriginalPull {
  std::string request_id;
  std::vector<std::byte> engine_desc;
  std::vector<std::byte> memory_desc;
  std::uint64_t target_offset = 0;
  std::uint64_t length = 0;
  bool operator==(const OriginalPull&) const = default;
};
using OriginalRequest = std::variant<OriginalQuery, OriginalPull>;

std::vector<std::byte> encode(const OriginalQuery& query);
std::vector<std::byte> encode(const OriginalQueryResponse& response);
std::vector<std::byte> encode(const OriginalPull& pull);
/// Fields in any order, unknown ones ignored, the last of a repeated one counts; `corrupt` for a missing or
/// mistyped one. Bytes that begin with kQueryPrefix are a query, all others a pull.
Result<OriginalRequest> decode_original_request(std::span<const std::byte> bytes);
/// The answer to a query; kInfoNotFound becomes `not_found`.
Result<OriginalQueryResponse> decode_original_response(std::span<const std::byte> bytes);

}  // namespace stagewire::wire
