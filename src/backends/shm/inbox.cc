#include "backends/shm/inbox.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "backends/shm/address.hpp"
#include "base/text.hpp"

namespace stagewire::backends::shm {

Inbox::Inbox(const Host& host, std::uint32_t id, base::UniqueFd connection)
    : host_(host), id_(id), connection_(std::move(connection)) {}

Inbox::~Inbox() {
  if (doorbell_) host_.epoll.remove(doorbell_.get());
  host_.epoll.remove(socket());
  // Payloads may keep the descriptor open for longer; the peer hears at once.
  ::shutdown(socket(), SHUT_RDWR);
}

Error Inbox::corrupt(const std::string& what) const {
  return base::error(ErrorCode::corrupt, peer_, " broke the shm protocol: ", what);
}

Status Inbox::serve_socket(EventSink& sink, std::size_t& events) {
  for (;;) {
    Status sent;
    if (!flush_answer(sent)) return sent;
    auto packet = receive_packet(socket());
    if (!packet) return packet.error();
    if (packet->kind == Packet::Kind::none) return {};
    ++events;
    if (packet->kind == Packet::Kind::end) {
      return base::error(ErrorCode::unavailable, peer_, " closed its connection or ended");
    }
    const Status handled = handle(std::move(*packet), sink);
    if (!handled) return handled;
  }
}

// True when nothing waits to be sent.
bool Inbox::flush_answer(Status& status) {
  if (!unsent_) return true;
  std::array<int, kMaxSocketFds> fds{};
  std::size_t count = 0;
  for (const base::UniqueFd& fd : unsent_->fds) {
    if (fd) fds[count++] = fd.get();
  }
  const auto sent = send_packet(socket(), unsent_->bytes, std::span(fds).first(count));
  if (!sent) {
    status = sent.error();
    return false;
  }
  host_.epoll.watch_writable(socket(), {Source::inbox_socket, id_}, *sent == Sent::later);
  if (*sent == Sent::later) return false;
  unsent_.reset();
  return true;
}

Status Inbox::answer(Answer answer) {
  unsent_ = std::move(answer);
  Status status;
  flush_answer(status);
  return status;
}

Status Inbox::handle(Packet packet, EventSink& sink) {
  auto message = unpack_message(packet.bytes);
  if (!message) return corrupt(message.error().message());
  if (const auto* hello = std::get_if<Hello>(&*message)) return handle(*hello, sink);
  if (const auto* request = std::get_if<ImportRequest>(&*message); request != nullptr && token_) {
    return handle(*request);
  }
  return corrupt(base::text("an unexpected message of kind ", message->index()));
}

Status Inbox::handle(const Hello& hello, EventSink& sink) {
  if (token_) return corrupt("a second hello");
  const auto peer = unpack_address(hello.address);
  if (!peer) return corrupt(peer.error().message());
  peer_ = base::text("process ", peer->process);
  const Status reachable = can_reach(host_.address, *peer);
  if (!reachable) {
    const Refusal refusal{static_cast<std::uint32_t>(reachable.error().code()), reachable.error().message()};
    const Status told = answer({pack(SocketMessage(refusal)), {}});
    return told ? reachable : told;
  }
  Answer welcome;
  const Status opened = open_memory(welcome);
  if (!opened) return opened;
  const Status told = answer(std::move(welcome));
  if (!told) return told;
  token_ = sink.on_peer_arrived(hello.address, {});
  return {};
}

Status Inbox::open_memory(Answer& welcome) {
  const Geometry& g = host_.geometry;
  auto file = create_sealed_file("stagewire-inbox", g.file_size());
  if (!file) return file.error();
  auto mapping = base::Mapping::shared(file->get(), 0, g.file_size(), base::MapAccess::read_write);
  if (!mapping) return mapping.error();
  populate_pages(*mapping);
  doorbell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_) return base::system_error("eventfd", errno);
  base::UniqueFd peers_doorbell(::fcntl(doorbell_.get(), F_DUPFD_CLOEXEC, 0));
  if (!peers_doorbell) return base::system_error("copying an eventfd", errno);
  const Status added = host_.epoll.add(doorbell_.get(), {Source::inbox_doorbell, id_});
  if (!added) return added;
  memory_ = std::make_shared<InboxMemory>(std::move(*mapping), g, std::move(connection_));
  reader_.emplace(memory_->view());
  welcome.bytes = pack(SocketMessage(Welcome{g.ring_size, g.slots, g.slot_size}));
  welcome.fds[0] = std::move(*file);
  welcome.fds[1] = std::move(peers_doorbell);
  return {};
}

Status Inbox::handle(const ImportRequest& request) {
  Answer reply;
  ImportAnswer message;
  message.request = request.request;
  auto file = host_.regions.open_for_peer(request.region, request.token);
  if (file) {
    reply.fds[0] = std::move(*file);
  } else {
    message.code = static_cast<std::uint32_t>(file.error().code());
    message.text = file.error().message();
  }
  reply.bytes = pack(SocketMessage(message));
  return answer(std::move(reply));
}

Status Inbox::deliver_one(const RingReader::Record& record, EventSink& sink) {
  if (record.kind == RecordKind::notification) {
    std::uint32_t notification = 0;
    std::memcpy(&notification, record.bytes.data(), sizeof notification);
    sink.on_notification(*token_, notification);
    return {};
  }
  MessagePayload payload;
  if (record.payload_size > 0) {
    payload = memory_->hand_out(record.slot, record.payload_size);
    if (payload.empty()) return corrupt(base::text("payload slot ", record.slot, " is still in use"));
  }
  sink.on_message(*token_, record.bytes, std::move(payload));
  return {};
}

Status Inbox::deliver(EventSink& sink, std::size_t limit, std::size_t& events) {
  if (!reader_) return {};
  Status status;
  RingReader::Record record;
  for (std::size_t count = 0; count < limit && status.ok(); ++count) {
    const RingReader::Next next = reader_->next(record);
    if (next == RingReader::Next::none) break;
    if (next == RingReader::Next::corrupt) return corrupt(reader_->corruption());
    status = deliver_one(record, sink);
    ++events;
  }
  if (reader_->release()) memory_->tell_space();
  return status;
}

void Inbox::lose(EventSink& sink, const Error& reason) {
  if (token_) sink.on_peer_lost(*token_, reason);
}

}  // namespace stagewire::backends::shm
