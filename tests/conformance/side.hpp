// One end of a connection in a test: a backend, and a sink that remembers everything.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/builtin_backends.hpp"
#include "base/unique_fd.hpp"
#include "stagewire/backend.hpp"

namespace stagewire::conformance {

// Byte loops over megabytes, which the sanitizers would make minutes long.
#define CONFORMANCE_PLAIN __attribute__((no_sanitize_thread, no_sanitize_address, no_sanitize_undefined))

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kManyMessages = 10'000;
#else
constexpr std::uint32_t kManyMessages = 100'000;
#endif

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline Bytes bytes_of(std::span<const std::byte> span) {
  return {span.begin(), span.end()};
}

/// Which backend a test runs over.
struct Subject {
  std::string name;  ///< of the test
  std::string backend;
  std::string fault_spec;
  bool processes = false;  ///< can connect two processes
};

class Recorder final : public EventSink {
 public:
  struct Message {
    PeerToken peer = 0;
    Bytes bytes;
    MessagePayload payload;
  };
  struct Loss {
    PeerToken peer = 0;
    Error reason;
  };

  PeerToken on_peer_arrived(std::span<const std::byte> peer_address, std::string_view engine_key) override {
    arrived.push_back(bytes_of(peer_address));
    keys.emplace_back(engine_key);
    return arrived.size();
  }
  void on_completion(Completion&& completion) override { completions.push_back(std::move(completion)); }
  void on_notification(PeerToken peer, std::uint32_t notification) override {
    notifications.emplace_back(peer, notification);
    if (when_notified) when_notified(notification);
  }
  void on_message(PeerToken peer, std::span<const std::byte> message, MessagePayload payload) override {
    messages.push_back({peer, bytes_of(message), std::move(payload)});
    if (when_message) when_message(messages.back());
  }
  void on_peer_lost(PeerToken peer, const Error& reason) override { lost.push_back({peer, reason}); }

  std::vector<Bytes> arrived;
  std::vector<std::string> keys;  ///< of those that arrived
  std::vector<Completion> completions;
  std::vector<std::pair<PeerToken, std::uint32_t>> notifications;
  std::vector<Message> messages;
  std::vector<Loss> lost;
  std::function<void(std::uint32_t)> when_notified;
  std::function<void(Message&)> when_message;
};

/// Host memory in a sealed memfd, as HostSlab makes it; sparse.
class Memory {
 public:
  explicit Memory(std::size_t size)
      : size_(size), fd_(::memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0 ||
        ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
      std::abort();
    }
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(mapped);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, size_); }

  std::span<std::byte> bytes() const { return {data_, size_}; }
  int fd() const { return fd_.get(); }
  MemoryRegion region() const { return region(0, size_); }
  MemoryRegion region(std::size_t offset, std::size_t size) const {
    MemoryRegion result;
    result.data = data_ + offset;
    result.size = size;
    result.fd = fd_.get();
    result.fd_offset = offset;
    return result;
  }
  /// The pattern of `seed`, different at every offset.
  CONFORMANCE_PLAIN void fill(std::uint64_t seed) const {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = pattern(seed, i);
  }
  /// The first byte of [begin, end) that is not the pattern's at `shift` further on; `end` when all are.
  CONFORMANCE_PLAIN std::size_t differs(std::uint64_t seed, std::size_t begin, std::size_t end,
                                        std::size_t shift = 0) const {
    while (begin < end && data_[begin] == pattern(seed, begin + shift)) ++begin;
    return begin;
  }
  CONFORMANCE_PLAIN static std::byte pattern(std::uint64_t seed, std::size_t offset) {
    return static_cast<std::byte>(((offset + 1) * 0x9e3779b97f4a7c15ULL + seed) >> 56);
  }

 private:
  const std::size_t size_;
  const base::UniqueFd fd_;
  std::byte* data_ = nullptr;
};

struct Side {
  explicit Side(const Subject& subject, BackendOptions options = BackendOptions()) {
    options.fault_spec = subject.fault_spec;
    auto created = backend::create_backend(subject.backend, options);
    if (!created) throw std::runtime_error(created.error().to_string());
    backend = std::move(*created);
  }

  std::unique_ptr<Endpoint> connect(const Side& peer) { return connect(peer.backend->address()); }
  std::unique_ptr<Endpoint> connect(std::span<const std::byte> address) {
    auto endpoint = backend->connect(address);
    if (!endpoint) throw std::runtime_error(endpoint.error().to_string());
    return std::move(*endpoint);
  }
  std::unique_ptr<Registration> add(const MemoryRegion& region, Access access = Access::local_only) {
    auto registration = backend->register_region(region, access);
    if (!registration) throw std::runtime_error(registration.error().to_string());
    return std::move(*registration);
  }
  void step() { backend->progress(events, false); }

  std::unique_ptr<Backend> backend;
  Recorder events;
};

constexpr std::chrono::seconds kPatience{30};

/// Drives the sides until `done` or, failing the test, until patience ends.
template <typename Done>
bool drive(std::initializer_list<Side*> sides, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    for (Side* side : sides) side->step();
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace stagewire::conformance
