// Our end of a connection that a peer made to us: its messages, and its requests for regions. Belongs to the
// thread that calls progress().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/shm/epoll_set.hpp"
#include "backends/shm/inbox_memory.hpp"
#include "backends/shm/region_table.hpp"
#include "backends/shm/ring_reader.hpp"
#include "backends/shm/unix_socket.hpp"

namespace stagewire::backends::shm {

class Inbox {
 public:
  /// What all inboxes of a backend share.
  struct Host {
    const Address& address;
    const Geometry& geometry;
    RegionTable& regions;
    EpollSet& epoll;
  };

  /// `connection`: accepted, of the same user, already in the epoll set.
  Inbox(const Host& host, std::uint32_t id, base::UniqueFd connection);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  std::uint32_t id() const { return id_; }

  /// Reads and answers what has come over the socket. An error ends the connection: the peer is gone
  /// (`unavailable`) or broke the protocol (`corrupt`); then call lose().
  Status serve_socket(EventSink& sink, std::size_t& events);
  /// Delivers messages and notifications, at most about `limit`. An error as above.
  Status deliver(EventSink& sink, std::size_t limit, std::size_t& events);
  /// Tells the sink, if it ever heard of this peer.
  void lose(EventSink& sink, const Error& reason);

  /// Both only once the peer has introduced itself.
  bool empty() const { return !reader_ || reader_->empty(); }
  void arm(Armed how) {
    if (reader_) reader_->arm(how);
  }
  void disarm() {
    if (reader_) reader_->disarm();
  }

 private:
  struct Answer {
    std::vector<std::byte> bytes;
    std::array<base::UniqueFd, kMaxSocketFds> fds;
  };

  int socket() const { return memory_ ? memory_->socket() : connection_.get(); }
  Status handle(Packet packet, EventSink& sink);
  Status handle(const Hello& hello, EventSink& sink);
  Status handle(const ImportRequest& request);
  Status open_memory(Answer& welcome);
  Status answer(Answer answer);
  bool flush_answer(Status& status);
  Status deliver_one(const RingReader::Record& record, EventSink& sink);
  Error corrupt(const std::string& what) const;

  const Host host_;
  const std::uint32_t id_;
  base::UniqueFd connection_;  // until memory_ takes it over
  std::shared_ptr<InboxMemory> memory_;
  std::optional<RingReader> reader_;
  base::UniqueFd doorbell_;
  std::string peer_ = "a process that has not introduced itself";
  std::optional<EventSink::PeerToken> token_;
  std::optional<Answer> unsent_;  // nothing more is read from the peer before it has taken this
};

}  // namespace stagewire::backends::shm
