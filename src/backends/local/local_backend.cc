// Engines of the same process: every copy is a memcpy on the caller's thread. The reference for the others,
// and what tests of the engine use.
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "backend/builtin_backends.hpp"
#include "backends/local/local_endpoint.hpp"
#include "base/text.hpp"

namespace stagewire::backends {
namespace local {
namespace {

Result<std::uint64_t> random_u64() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) return base::system_error("getrandom", errno);
  return value;
}

// Names this process: its id, and a number that another process with the same id does not have.
Result<AddressFields> new_address() {
  static const Result<std::uint64_t> process = random_u64();
  if (!process) return process.error();
  const auto core = random_u64();
  if (!core) return core.error();
  return AddressFields{kAddressMagic, static_cast<std::uint64_t>(::getpid()), *process, *core};
}

Capabilities capabilities_of(const BackendOptions& options) {
  Capabilities c;
  c.cpu_memory = true;
  c.same_process_only = true;
  c.same_host_only = true;
  c.maps_remote = true;
  c.max_request_size = std::numeric_limits<std::uint64_t>::max();
  c.max_message_size = options.message_ring_size / 4;
  c.max_payload_size = options.payload_slots > 0 ? options.payload_slot_size : 0;
  c.cost_us = 0.1;
  c.gb_per_s = 10;
  return c;
}

class LocalBackend final : public Backend {
 public:
  LocalBackend(const BackendOptions& options, const AddressFields& address, std::shared_ptr<Core> core)
      : options_(options),
        address_(address),
        capabilities_(capabilities_of(options)),
        core_(std::move(core)) {}
  ~LocalBackend() override { core_->close(); }

  std::string_view name() const override { return "local"; }
  std::string describe() const override { return "engines of the same process"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::span<const std::byte> address() const override { return core_->address; }

  Status reaches(std::span<const std::byte> peer_address) const override {
    const auto peer = from_bytes<AddressFields>(peer_address, kAddressMagic, "local address");
    if (!peer) return peer.error();
    if ((*peer)[1] != address_[1] || (*peer)[2] != address_[2]) {
      return base::error(ErrorCode::unsupported, "another process (", (*peer)[1], ", this one is ",
                         address_[1], ")");
    }
    return {};
  }

  Result<std::unique_ptr<Registration>> register_region(const MemoryRegion& memory, Access access) override {
    if (memory.kind != MemoryKind::cpu) {
      return base::error(ErrorCode::unsupported, "local carries host memory only");
    }
    const auto token = random_u64();
    if (!token) return token.error();
    auto region = std::make_shared<Region>();
    region->memory = memory;
    region->access = access;
    region->token = *token;
    return std::unique_ptr<Registration>(std::make_unique<LocalRegistration>(core_, std::move(region)));
  }

  Result<std::unique_ptr<Endpoint>> connect(std::span<const std::byte> peer_address) override {
    const Status reachable = reaches(peer_address);
    if (!reachable) return reachable.error();
    const auto peer = from_bytes<AddressFields>(peer_address, kAddressMagic, "local address");
    auto target = Core::find((*peer)[3]);
    if (!target) return base::error(ErrorCode::unavailable, "the peer in this process has closed");
    return std::unique_ptr<Endpoint>(std::make_unique<LocalEndpoint>(options_, core_, std::move(target)));
  }

  std::size_t progress(EventSink& sink, bool) override {
    core_->disarm();
    return core_->deliver(sink);
  }
  int wait_fd() const override { return core_->wake.fd(); }
  bool arm() override {
    core_->wake.forget();
    return core_->arm();
  }
  void want_everything(bool on) override { core_->want_everything(on); }

 private:
  const BackendOptions options_;
  const AddressFields address_;
  const Capabilities capabilities_;
  const std::shared_ptr<Core> core_;
};

}  // namespace
}  // namespace local

Result<std::unique_ptr<Backend>> create_local(const BackendOptions& options) {
  const auto address = local::new_address();
  if (!address) return address.error();
  auto core = std::make_shared<local::Core>(local::to_bytes(*address), (*address)[3]);
  const Status opened = core->wake.open();
  if (!opened) return opened.error();
  local::Core::publish(core);
  return std::unique_ptr<Backend>(std::make_unique<local::LocalBackend>(options, *address, std::move(core)));
}

}  // namespace stagewire::backends
