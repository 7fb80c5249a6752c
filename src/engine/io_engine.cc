// The public IOEngine: look-ups and checks, then the engine room.
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/core.hpp"
#include "memory/host_slab.hpp"
#include "stagewire/engine.hpp"

namespace stagewire {
namespace {

using engine::Core;
using engine::LocalRegion;
using engine::PeerPtr;
using engine::TransferImpl;

// How long memory that is given up waits for its transfers before it is left mapped for good.
constexpr base::Duration kLastTransfers = std::chrono::seconds(30);

// Overflow-safe: whether [offset, offset + size) lies in `limit` bytes.
bool fits(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) {
  return size <= limit && offset <= limit - size;
}

class EngineMemoryImpl final : public EngineMemory {
 public:
  EngineMemoryImpl(std::shared_ptr<Core> core, std::unique_ptr<memory::HostSlab> slab,
                   std::shared_ptr<LocalRegion> region)
      : core_(std::move(core)), slab_(std::move(slab)), region_(std::move(region)) {}
  ~EngineMemoryImpl() override {
    // Transfers that may still touch the memory are waited for: it must not be unmapped under them. One whose
    // end is never heard of keeps the memory.
    const Status idle = core_->deregister_region(region_->desc.id, base::Deadline::after(kLastTransfers));
    if (idle) return;
    base::log(LogLevel::error, "engine", idle.error().message());
    region_->memory = std::move(slab_);
  }
  std::span<std::byte> bytes() const override { return slab_->bytes(); }
  const MemoryDesc& desc() const override { return region_->desc; }

 private:
  std::shared_ptr<Core> core_;
  std::unique_ptr<memory::HostSlab> slab_;
  std::shared_ptr<LocalRegion> region_;
};

// What one transfer needs of both ends, looked up and checked.
struct Ends {
  std::shared_ptr<LocalRegion> local;
  PeerPtr peer;
  std::shared_ptr<RemoteRegion> remote;
  MemoryDesc remote_desc;
};

Result<Ends> find_ends(Core& core, const MemoryDesc& local, const MemoryDesc& remote) {
  Ends ends;
  ends.remote_desc = remote;
  ends.local = core.find_region(local.id);
  if (!ends.local || local.engine_key != core.desc().key) {
    return base::error(ErrorCode::not_found, "the local region ", local.id, " of ", local.engine_key,
                       " is not registered with engine ", core.desc().key);
  }
  if (core.closed()) return base::error(ErrorCode::closed, "engine ", core.desc().key, " was closed");
  ends.peer =
      remote.engine_key == core.desc().key ? core.add_peer(core.desc()) : core.find_peer(remote.engine_key);
  if (!ends.peer) {
    return base::error(ErrorCode::not_found, "engine ", remote.engine_key,
                       " is not known here (or is gone): call register_remote_engine() with its descriptor");
  }
  if (ends.peer->desc.instance_id != remote.instance_id && remote.instance_id != 0) {
    return base::error(ErrorCode::unavailable, "region ", remote.id, " belongs to an earlier instance of ",
                       remote.engine_key, ", which has been restarted: ask it for its new descriptor");
  }
  auto imported = core.import_region(*ends.peer, remote);
  if (!imported) return imported.error();
  ends.remote = std::move(*imported);
  return ends;
}

// Checks the pieces and starts the transfer; failures come back as a transfer that has failed.
Transfer start(const std::shared_ptr<Core>& core, const Ends& ends, Operation operation,
               std::span<const TransferPiece> pieces, TransferOptions options) {
  if (options.id == 0) options.id = core->allocate_transfer_id();
  TransferImpl::Request request;
  request.operation = operation;
  request.local = ends.local;
  request.peer = ends.peer;
  request.remote = ends.remote;
  request.options = options;
  for (const TransferPiece& piece : pieces) {
    const bool local_fits = fits(piece.local_offset, piece.size, ends.local->desc.size);
    const bool remote_fits = fits(piece.remote_offset, piece.size, ends.remote_desc.size);
    if (!local_fits || !remote_fits) {
      const MemoryDesc& region = local_fits ? ends.remote_desc : ends.local->desc;
      const std::uint64_t offset = local_fits ? piece.remote_offset : piece.local_offset;
      return std::make_shared<TransferImpl>(
          core, options.id,
          base::error(ErrorCode::invalid_argument, piece.size, " bytes at offset ", offset,
                      " lie outside of region ", region.id, " of ", region.engine_key, " (", region.size,
                      " bytes)"));
    }
    if (piece.size > 0) request.segments.push_back({piece.local_offset, piece.remote_offset, piece.size});
  }
  const bool allowed = operation == Operation::read ? allows_read(ends.remote_desc.access)
                                                    : allows_write(ends.remote_desc.access);
  request.what = base::text("region ", ends.remote_desc.id);
  if (!allowed && ends.remote_desc.instance_id != 0) {
    return std::make_shared<TransferImpl>(
        core, options.id,
        base::error(ErrorCode::permission, request.what, " of ", ends.remote_desc.engine_key,
                    " was not registered for remote ", operation == Operation::read ? "read" : "write"));
  }
  auto transfer = std::make_shared<TransferImpl>(core, std::move(request));
  core->submit(transfer, false);
  return transfer;
}

class SessionImpl final : public Session {
 public:
  SessionImpl(std::shared_ptr<Core> core, Ends ends) : core_(std::move(core)), ends_(std::move(ends)) {}
  Transfer read(std::span<const TransferPiece> pieces, const TransferOptions& options) override {
    return run(Operation::read, pieces, options);
  }
  Transfer write(std::span<const TransferPiece> pieces, const TransferOptions& options) override {
    return run(Operation::write, pieces, options);
  }
  bool alive() const override {
    return !core_->closed() && !ends_.peer->lost && core_->find_region(ends_.local->desc.id) == ends_.local;
  }
  std::string route() const override {
    const std::lock_guard lock(ends_.peer->mutex);
    return ends_.peer->route_reason;
  }

 private:
  Transfer run(Operation operation, std::span<const TransferPiece> pieces, const TransferOptions& options) {
    if (core_->find_region(ends_.local->desc.id) != ends_.local) {
      return std::make_shared<TransferImpl>(
          core_, options.id,
          base::error(ErrorCode::not_found, "region ", ends_.local->desc.id, " was deregistered"));
    }
    return start(core_, ends_, operation, pieces, options);
  }
  std::shared_ptr<Core> core_;
  Ends ends_;
};

class IOEngineImpl final : public IOEngine {
 public:
  explicit IOEngineImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~IOEngineImpl() override { core_->close(); }

  EngineDesc desc() const override { return core_->desc(); }

  Result<MemoryDesc> register_memory(const MemoryRegion& region, Access access) override {
    auto local = core_->register_region(region, access);
    if (!local) return local.error();
    return (*local)->desc;
  }
  Status deregister_memory(const MemoryDesc& desc, Milliseconds timeout) override {
    if (desc.engine_key != core_->desc().key || desc.instance_id != core_->desc().instance_id) {
      return base::error(ErrorCode::not_found, "region ", desc.id, " of ", desc.engine_key,
                         " is not one of engine ", core_->desc().key);
    }
    return core_->deregister_region(desc.id, base::Deadline::after(timeout));
  }
  Result<std::unique_ptr<EngineMemory>> allocate(std::size_t size, Access access) override {
    auto slab = memory::HostSlab::create(size);
    if (!slab) return slab.error();
    MemoryRegion region;
    region.data = (*slab)->bytes().data();
    region.size = size;
    region.fd = (*slab)->fd();
    auto local = core_->register_region(region, access);
    if (!local) return local.error();
    return std::unique_ptr<EngineMemory>(new EngineMemoryImpl(core_, std::move(*slab), std::move(*local)));
  }

  Status register_remote_engine(const EngineDesc& desc) override {
    if (core_->closed()) return base::error(ErrorCode::closed, "engine ", core_->desc().key, " was closed");
    if (desc.key.empty()) return base::error(ErrorCode::invalid_argument, "the engine descriptor has no key");
    const PeerPtr peer = core_->add_peer(desc);
    const std::lock_guard lock(peer->mutex);
    if (peer->endpoint) return {};
    return base::error(ErrorCode::unavailable, "no backend reaches ", desc.key, ": ", peer->route_reason);
  }
  Status deregister_remote_engine(const EngineDesc& desc) override {
    const PeerPtr peer = core_->find_peer(desc.key);
    if (!peer) return base::error(ErrorCode::not_found, "engine ", desc.key, " is not known here");
    core_->dismiss_peer(peer, base::error(ErrorCode::cancelled, "engine ", desc.key, " was deregistered"));
    return {};
  }

  std::uint32_t allocate_transfer_id() override { return core_->allocate_transfer_id(); }

  Transfer read(const MemoryDesc& local, std::uint64_t local_offset, const MemoryDesc& remote,
                std::uint64_t remote_offset, std::uint64_t size, const TransferOptions& options) override {
    const TransferPiece piece{local_offset, remote_offset, size};
    return run(Operation::read, local, remote, {&piece, 1}, options);
  }
  Transfer write(const MemoryDesc& local, std::uint64_t local_offset, const MemoryDesc& remote,
                 std::uint64_t remote_offset, std::uint64_t size, const TransferOptions& options) override {
    const TransferPiece piece{local_offset, remote_offset, size};
    return run(Operation::write, local, remote, {&piece, 1}, options);
  }
  Transfer batch_read(const MemoryDesc& local, const MemoryDesc& remote,
                      std::span<const TransferPiece> pieces, const TransferOptions& options) override {
    return run(Operation::read, local, remote, pieces, options);
  }
  Transfer batch_write(const MemoryDesc& local, const MemoryDesc& remote,
                       std::span<const TransferPiece> pieces, const TransferOptions& options) override {
    return run(Operation::write, local, remote, pieces, options);
  }
  Result<std::shared_ptr<Session>> create_session(const MemoryDesc& local,
                                                  const MemoryDesc& remote) override {
    auto ends = find_ends(*core_, local, remote);
    if (!ends) return ends.error();
    return std::shared_ptr<Session>(std::make_shared<SessionImpl>(core_, std::move(*ends)));
  }

  bool pop_inbound(std::string_view peer_key, std::uint32_t id) override {
    return core_->pop_inbound(peer_key, id);
  }
  Status wait_inbound(std::string_view peer_key, std::uint32_t id, Milliseconds timeout) override {
    return core_->wait_inbound(peer_key, id, base::Deadline::after(timeout));
  }
  std::size_t progress(Milliseconds wait) override { return core_->progress(wait); }
  void close() override { core_->close(); }

 private:
  Transfer run(Operation operation, const MemoryDesc& local, const MemoryDesc& remote,
               std::span<const TransferPiece> pieces, const TransferOptions& options) {
    auto ends = find_ends(*core_, local, remote);
    if (!ends) return std::make_shared<TransferImpl>(core_, options.id, ends.error());
    return start(core_, *ends, operation, pieces, options);
  }

  std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<IOEngine>> IOEngine::create(const IOEngineConfig& config) {
  auto core = Core::create({.engine = config});
  if (!core) return core.error();
  if (Status started = (*core)->start(); !started) return started.error();
  return std::unique_ptr<IOEngine>(new IOEngineImpl(std::move(*core)));
}

}  // namespace stagewire
