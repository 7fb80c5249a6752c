// A frame: what one send over a link's first queue pair carries. A header of 64 bytes, the payload (padded to
// a multiple of 64, so that it is aligned where it arrives), the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace stagewire::backends::rdma {

enum class FrameKind : std::uint32_t {
  begin,           ///< from the caller: its queue pairs are ready
  message,         ///< of the engine
  notification,    ///< `number`
  import_request,  ///< is there region message[0..8), with the token message[8..16)? `number` names the
                   ///< question
  import_answer,   ///< `number` of the question; message: nothing, or why not
  credits,         ///< nothing but the header's counts
  bye              ///< the last one
};

/// Little-endian, as both processors are.
struct FrameHeader {
  FrameKind kind = FrameKind::begin;
  std::uint32_t message_size = 0;
  std::uint32_t payload_size = 0;
  std::uint32_t number = 0;
  std::uint32_t error = 0;           ///< import_answer: stagewire::ErrorCode, 0 = there is one
  std::uint32_t freed_frames = 0;    ///< how many frames of the other end are done with, since the link began
  std::uint32_t freed_payloads = 0;  ///< and how many of their payloads
};

constexpr std::size_t kFrameHeader = 64;
static_assert(sizeof(FrameHeader) <= kFrameHeader);

constexpr std::size_t padded(std::size_t size) {
  return (size + 63) / 64 * 64;
}

/// A frame as it lies in a receive buffer; `sane` when its sizes are what came and are within the limits.
struct ReceivedFrame {
  FrameHeader header;
  std::span<const std::byte> payload;
  std::span<const std::byte> message;
  bool sane = false;
};

/// `bytes`: what came; they may be a hostile peer's.
inline ReceivedFrame read_frame(std::span<const std::byte> bytes, std::size_t max_message,
                                std::size_t max_payload) {
  ReceivedFrame frame;
  if (bytes.size() < kFrameHeader) return frame;
  std::memcpy(&frame.header, bytes.data(), sizeof frame.header);
  const std::size_t message = frame.header.message_size;
  const std::size_t payload = frame.header.payload_size;
  if (message > max_message || payload > max_payload || frame.header.kind > FrameKind::bye) return frame;
  if (bytes.size() != kFrameHeader + padded(payload) + message) return frame;
  frame.payload = bytes.subspan(kFrameHeader, payload);
  frame.message = bytes.subspan(kFrameHeader + padded(payload), message);
  frame.sane = true;
  return frame;
}

}  // namespace stagewire::backends::rdma
