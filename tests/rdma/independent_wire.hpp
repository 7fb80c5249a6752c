// MORI-IO's messages and frames for the independent peer, put together by hand.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace stagewire::rdma_test {

using Octets = std::vector<std::uint8_t>;

[[noreturn]] inline void fail(const std::string& what) {
  throw std::runtime_error("independent peer: " + what);
}

// --- msgpack, as far as it is needed

inline void put_big_endian(Octets& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

inline void put_number(Octets& out, std::uint64_t value) {
  if (value < 0x80) return out.push_back(static_cast<std::uint8_t>(value));
  const int bytes = value < 0x100 ? 1 : value < 0x10000 ? 2 : value < 0x100000000 ? 4 : 8;
  out.push_back(static_cast<std::uint8_t>(bytes == 1 ? 0xcc : bytes == 2 ? 0xcd : bytes == 4 ? 0xce : 0xcf));
  put_big_endian(out, value, bytes);
}

inline void put_text(Octets& out, const std::string& text) {
  if (text.size() > 255) fail("texts of this peer are short");
  if (text.size() > 31) {
    out.push_back(0xd9);
    out.push_back(static_cast<std::uint8_t>(text.size()));
  } else {
    out.push_back(static_cast<std::uint8_t>(0xa0 + text.size()));
  }
  out.insert(out.end(), text.begin(), text.end());
}

inline void put_binary(Octets& out, const std::uint8_t* data, std::size_t size) {
  out.push_back(0xc4);
  out.push_back(static_cast<std::uint8_t>(size));
  out.insert(out.end(), data, data + size);
}

inline void put_array(Octets& out, std::size_t count) {
  out.push_back(static_cast<std::uint8_t>(0x90 + count));
}

class Reader {
 public:
  explicit Reader(const Octets& bytes, std::size_t begin = 0) : bytes_(bytes), at_(begin) {}
  std::size_t array() {
    const std::uint8_t head = byte();
    if (head == 0xdc) return static_cast<std::size_t>(big_endian(2));
    if ((head & 0xf0) != 0x90) fail("an array is missing");
    return head & 0x0f;
  }
  std::int64_t number() {
    const std::uint8_t head = byte();
    if (head < 0x80) return head;
    if (head >= 0xe0) return static_cast<std::int8_t>(head);
    if (head >= 0xcc && head <= 0xcf) return static_cast<std::int64_t>(big_endian(1 << (head - 0xcc)));
    fail("a number is missing");
  }
  std::string text() {
    const std::uint8_t head = byte();
    std::size_t size = 0;
    if (head == 0xd9) {
      size = byte();
    } else if ((head & 0xe0) == 0xa0) {
      size = head & 0x1f;
    } else {
      fail("a text is missing");
    }
    const Octets data = take(size);
    return {data.begin(), data.end()};
  }
  Octets binary() {
    if (byte() != 0xc4) fail("bytes are missing");
    return take(byte());
  }

 private:
  std::uint8_t byte() { return take(1)[0]; }
  std::uint64_t big_endian(int bytes) {
    std::uint64_t value = 0;
    for (const std::uint8_t part : take(static_cast<std::size_t>(bytes))) value = value << 8 | part;
    return value;
  }
  Octets take(std::size_t size) {
    if (size > bytes_.size() - at_) fail("a message is cut off");
    at_ += size;
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(at_ - size),
            bytes_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }
  const Octets& bytes_;
  std::size_t at_;
};

inline Octets framed(std::uint8_t kind, const Octets& body) {
  Octets frame{kind};
  put_big_endian(frame, body.size(), 4);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

inline bool send_all(int socket, const Octets& bytes) {
  // Header byte, length and body one by one, as MORI-IO sends them.
  std::size_t at = 0;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4}, bytes.size() - 5}) {
    for (std::size_t sent = 0; sent < size;) {
      const ssize_t count = ::send(socket, bytes.data() + at, size - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
      at += static_cast<std::size_t>(count);
    }
  }
  return true;
}

// Empty when the other side closes, or says nothing for too long.
inline Octets receive_frame(int socket) {
  Octets frame;
  std::size_t wanted = 5;
  while (frame.size() < wanted) {
    pollfd readable{socket, POLLIN, 0};
    if (::poll(&readable, 1, 8000) <= 0) return {};
    std::uint8_t buffer[4096];
    const ssize_t count = ::recv(socket, buffer, std::min(wanted - frame.size(), sizeof buffer), 0);
    if (count <= 0) return {};
    frame.insert(frame.end(), buffer, buffer + count);
    if (frame.size() == 5) {
      wanted += static_cast<std::size_t>(frame[1]) << 24 | static_cast<std::size_t>(frame[2]) << 16 |
                static_cast<std::size_t>(frame[3]) << 8 | frame[4];
    }
  }
  return frame;
}

}  // namespace stagewire::rdma_test
