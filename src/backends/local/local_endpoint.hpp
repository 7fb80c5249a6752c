// Registrations, imported regions and endpoints of the local backend.
#pragma once

#include <array>
#include <cstring>

#include "backends/local/local_core.hpp"
#include "base/text.hpp"

namespace stagewire::backends::local {

// Addresses and keys never leave the process: plain numbers, checked all the same.
using AddressFields = std::array<std::uint64_t, 4>;  ///< magic, process id, process number, core
using KeyFields = std::array<std::uint64_t, 6>;      ///< magic, core, region, token, size, access
constexpr std::uint64_t kAddressMagic = 0x53574c4f43414c41;
constexpr std::uint64_t kKeyMagic = 0x53574c4f43414c4b;

template <typename Fields>
std::vector<std::byte> to_bytes(const Fields& fields) {
  const auto bytes = std::as_bytes(std::span(fields));
  return {bytes.begin(), bytes.end()};
}

template <typename Fields>
Result<Fields> from_bytes(std::span<const std::byte> bytes, std::uint64_t magic, std::string_view what) {
  Fields fields{};
  if (bytes.size() == sizeof fields) std::memcpy(&fields, bytes.data(), sizeof fields);
  if (fields[0] != magic) return base::error(ErrorCode::corrupt, "no ", what, ": ", bytes.size(), " bytes");
  return fields;
}

class LocalRegistration final : public Registration {
 public:
  LocalRegistration(std::shared_ptr<Core> core, std::shared_ptr<Region> region);
  /// Waits for copies from or to the region that are under way.
  ~LocalRegistration() override;
  std::span<const std::byte> remote_key() const override { return key_; }
  const Region& region() const { return *region_; }

 private:
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Region> region_;
  const std::uint64_t id_;
  const std::vector<std::byte> key_;
};

class LocalRemoteRegion final : public RemoteRegion {
 public:
  explicit LocalRemoteRegion(Result<std::shared_ptr<Region>> region, std::uint64_t size)
      : region_(std::move(region)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  std::optional<Status> status() const override { return region_ ? Status() : Status(region_.error()); }
  const std::byte* mapping() const override {
    return region_ && allows_read((*region_)->access) ? (*region_)->memory.data : nullptr;
  }
  const Result<std::shared_ptr<Region>>& region() const { return region_; }

 private:
  const Result<std::shared_ptr<Region>> region_;
  const std::uint64_t size_;
};

class LocalEndpoint final : public Endpoint {
 public:
  LocalEndpoint(const BackendOptions& options, std::shared_ptr<Core> own, std::shared_ptr<Core> peer);
  ~LocalEndpoint() override;
  std::optional<Status> status() const override;
  Result<std::unique_ptr<RemoteRegion>> import(std::span<const std::byte> remote_key) override;
  Result<Posted> post(const WorkRequest& request) override;
  PayloadSlot reserve(std::size_t size) override;
  void abandon(const PayloadSlot& slot) override;
  Result<Posted> send(std::span<const std::byte> message, const PayloadSlot& slot, bool urgent) override;

 private:
  Result<std::shared_ptr<Region>> find_region(const KeyFields& key) const;

  const std::size_t max_message_;
  const std::shared_ptr<Core> peer_;
  const std::shared_ptr<Link> link_;
};

}  // namespace stagewire::backends::local
