// Writing msgpack: msgpack-cxx's packer (shortest integer forms) over memory of ours. For .cc files only,
// because the library's header is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <msgpack.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace stagewire::base {

/// Appends to a vector that its owner reuses: no allocation once it has grown.
class VectorSink {
 public:
  explicit VectorSink(std::vector<std::byte>& out) : out_(out) {}
  void write(const char* data, std::size_t size) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }

 private:
  std::vector<std::byte>& out_;
};

/// Sizes must be below 4 GiB, the format's limit; the caller has checked that.
template <typename Sink>
void pack_text(msgpack::packer<Sink>& packer, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  packer.pack_str(size).pack_str_body(text.data(), size);
}

template <typename Sink>
void pack_bytes(msgpack::packer<Sink>& packer, std::span<const std::byte> bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  packer.pack_bin(size).pack_bin_body(reinterpret_cast<const char*>(bytes.data()), size);
}

}  // namespace stagewire::base
