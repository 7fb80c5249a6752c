#include "backends/shm/outbox.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "backend/packed_struct.hpp"
#include "backends/shm/copy.hpp"
#include "backends/shm/copy_job.hpp"
#include "base/check.hpp"
#include "base/text.hpp"

namespace stagewire::backends::shm {
namespace {

// A peer may pass anything as its doorbell; writing to something else could block.
Status check_doorbell(int fd) {
  std::array<char, 32> target{};
  const std::string link = base::text("/proc/self/fd/", fd);
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  if (size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) != "anon_inode:[eventfd]") {
    return base::error(ErrorCode::corrupt, "the doorbell is no eventfd");
  }
  if (::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0) return base::system_error("fcntl of a doorbell", errno);
  return {};
}

}  // namespace

Result<std::shared_ptr<Outbox>> Outbox::connect(const Host& host, std::uint32_t id, const Address& peer) {
  auto socket = connect_to(peer.socket);
  if (!socket) return socket.error();
  const Status same_user = check_same_user(socket->get());
  if (!same_user) return same_user.error();
  const auto sent =
      send_packet(socket->get(), pack(SocketMessage(Hello{kFormatVersion, pack(host.address)})));
  if (!sent) return sent.error();
  auto outbox = std::make_shared<Outbox>(host, id, peer, std::move(*socket));
  const Status added = host.epoll.add(outbox->socket_.get(), {Source::outbox_socket, id});
  if (!added) return added.error();
  return outbox;
}

Outbox::Outbox(const Host& host, std::uint32_t id, const Address& peer, base::UniqueFd socket)
    : host_(host), id_(id), peer_(peer), socket_(std::move(socket)) {}

// An answer that was being handled while close() ran may have given the worker another job.
Outbox::~Outbox() {
  host_.worker.cancel(this);
}

Error Outbox::corrupt(const std::string& what) const {
  return base::error(ErrorCode::corrupt, "process ", peer_.process, " broke the shm protocol: ", what);
}

Error Outbox::reason() const {
  const std::lock_guard lock(control_mutex_);
  STAGEWIRE_CHECK(error_.has_value(), "a lost endpoint has a reason");
  return *error_;
}

std::optional<Status> Outbox::status() const {
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::connecting:
      return std::nullopt;
    case Phase::up:
      return Status();
    case Phase::lost:
      break;
  }
  return Status(reason());
}

void Outbox::fail(const Error& reason) {
  {
    const std::lock_guard lock(control_mutex_);
    if (error_) return;
    error_ = reason;
    phase_.store(Phase::lost, std::memory_order_release);
    for (auto& [request, import] : imports_) import->fail(reason);
    imports_.clear();
    requests_.clear();
  }
  std::deque<LateNotification> late;
  {
    // Whoever gets the lock after us sees `lost` and adds nothing.
    const std::lock_guard lock(ring_mutex_);
    late.swap(late_);
  }
  host_.late_notifications.fetch_sub(late.size());
  for (const LateNotification& notification : late) host_.completions.push(notification.id, reason);
}

void Outbox::close() {
  fail(base::error(ErrorCode::closed, "the endpoint to process ", peer_.process, " was closed"));
  host_.worker.cancel(this);
  host_.epoll.remove(socket_.get());
  ::shutdown(socket_.get(), SHUT_RDWR);
}

std::size_t Outbox::serve_socket() {
  std::size_t events = 0;
  while (!lost()) {
    auto packet = receive_packet(socket_.get());
    if (packet && packet->kind == Packet::Kind::none) break;
    ++events;
    Status status;
    if (!packet) {
      status = corrupt(packet.error().message());
    } else if (packet->kind == Packet::Kind::end) {
      status =
          base::error(ErrorCode::unavailable, "process ", peer_.process, " closed its connection or ended");
    } else {
      status = handle(std::move(*packet));
    }
    if (!status) fail(status.error());
  }
  if (lost()) return events;
  const Status flushed = flush_requests();
  if (!flushed) fail(flushed.error());
  return events;
}

Status Outbox::handle(Packet packet) {
  auto message = unpack_message(packet.bytes);
  if (!message) return corrupt(message.error().message());
  const bool up = phase_.load(std::memory_order_relaxed) == Phase::up;
  if (const auto* welcome = std::get_if<Welcome>(&*message); welcome != nullptr && !up)
    return handle(*welcome, packet);
  if (const auto* refusal = std::get_if<Refusal>(&*message); refusal != nullptr && !up) {
    return backend::error_of_peer(refusal->code, refusal->text);
  }
  if (const auto* answer = std::get_if<ImportAnswer>(&*message); answer != nullptr && up)
    return handle(*answer, packet);
  // Nothing to do: whoever met a full ring tries again after this event.
  if (std::holds_alternative<SpaceFreed>(*message) && up) return {};
  return corrupt(base::text("an unexpected message of kind ", message->index()));
}

Status Outbox::handle(const Welcome& welcome, Packet& packet) {
  const Geometry geometry{welcome.ring_size, welcome.slots, welcome.slot_size};
  const Status sane = geometry.check();
  if (!sane) return corrupt(sane.error().message());
  const auto shape = check_sealed(packet.fds[0].get());
  if (!shape) return corrupt(shape.error().message());
  if (shape->size < geometry.file_size()) return corrupt("its inbox is smaller than it says");
  const Status doorbell = check_doorbell(packet.fds[1].get());
  if (!doorbell) return corrupt(doorbell.error().message());
  auto mapping =
      base::Mapping::shared(packet.fds[0].get(), 0, geometry.file_size(), base::MapAccess::read_write);
  if (!mapping) return mapping.error();
  populate_pages(*mapping);
  const std::lock_guard lock(control_mutex_);
  if (error_) return *error_;
  inbox_ = std::move(*mapping);
  doorbell_ = std::move(packet.fds[1]);
  writer_.emplace(RingView(inbox_.bytes().data(), geometry));
  phase_.store(Phase::up, std::memory_order_release);
  return {};
}

Status Outbox::handle(const ImportAnswer& answer, Packet& packet) {
  std::shared_ptr<Import> import;
  {
    const std::lock_guard lock(control_mutex_);
    const auto found = imports_.find(answer.request);
    if (found == imports_.end()) {
      if (error_) return {};
      return corrupt(base::text("an answer to import ", answer.request, ", which was not asked for"));
    }
    import = std::move(found->second);
    imports_.erase(found);
  }
  if (answer.code != 0) {
    import->fail(backend::error_of_peer(answer.code, answer.text));
  } else {
    start_mapping(import, std::move(packet.fds[0]));
  }
  return {};
}

// A region that is mapped already only needed the peer's leave.
void Outbox::start_mapping(const std::shared_ptr<Import>& import, base::UniqueFd file) {
  {
    const std::lock_guard lock(control_mutex_);
    if (auto mapping = mappings_[import->key().id].lock(); mapping && mapping->size() == import->key().size) {
      import->succeed(std::move(mapping));
      return;
    }
  }
  auto mapping = RegionMapping::create(import->key(), std::move(file));
  if (!mapping) {
    import->fail(mapping.error());
    return;
  }
  std::unique_ptr<backend::Worker::Job> job = std::make_unique<PopulateJob>(*this, import, *mapping);
  const auto pushed = host_.worker.push(job);
  // Its pages can as well be mapped when they are first touched.
  if (!pushed || !*pushed) imported(*import, std::move(*mapping));
}

void Outbox::imported(Import& import, std::shared_ptr<RegionMapping> mapping) {
  {
    const std::lock_guard lock(control_mutex_);
    if (error_) {
      import.fail(*error_);
    } else {
      mappings_[import.key().id] = mapping;
      import.succeed(std::move(mapping));
    }
  }
  host_.completions.nudge();
}

Status Outbox::flush_requests() {
  const std::lock_guard lock(control_mutex_);
  if (phase_.load(std::memory_order_relaxed) != Phase::up) return {};
  while (!requests_.empty()) {
    const auto sent = send_packet(socket_.get(), requests_.front());
    if (!sent) return sent.error();
    host_.epoll.watch_writable(socket_.get(), {Source::outbox_socket, id_}, *sent == Sent::later);
    if (*sent == Sent::later) break;
    requests_.pop_front();
  }
  return {};
}

Result<std::shared_ptr<Import>> Outbox::import(std::span<const std::byte> remote_key) {
  const auto key = unpack_region_key(remote_key);
  if (!key) return key.error();
  if (key->socket != peer_.socket) {
    return base::error(ErrorCode::not_found, "region ", key->id, " belongs to ", key->socket,
                       ", this endpoint is connected to ", peer_.socket);
  }
  if (key->access == 0 || key->access > static_cast<std::uint32_t>(Access::remote_read_write)) {
    return base::error(ErrorCode::permission, "region ", key->id, " of process ", peer_.process,
                       " is registered for local use only");
  }
  auto import = std::make_shared<Import>(*key);
  {
    const std::lock_guard lock(control_mutex_);
    if (error_) return *error_;
    if (imports_.size() >= kMaxImportsUnderWay) {
      return base::error(ErrorCode::exhausted, imports_.size(), " imports from process ", peer_.process,
                         " are under way: wait for some");
    }
    const std::uint64_t request = next_request_++;
    imports_[request] = import;
    requests_.push_back(pack(SocketMessage(ImportRequest{request, key->id, key->token})));
  }
  const Status flushed = flush_requests();
  if (!flushed) return flushed.error();
  return import;
}

}  // namespace stagewire::backends::shm
