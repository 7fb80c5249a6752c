// The simulated devices, and everything that was made on them. One mutex guards it all; bytes are copied
// without it by the library's thread, while what the copy uses is marked busy.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_verbs/control.hpp"

#undef ibv_query_port
#undef ibv_reg_mr

namespace stagewire::fake_verbs {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

/// Real verbs would corrupt memory, hang, or lose completions here.
[[noreturn]] void violation(const std::string& text);

template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (condition) return;
  std::ostringstream text;
  (text << ... << parts);
  violation(text.str());
}

struct Device : ibv_device {
  int index = 0;
  bool network = true;
  bool port_active = true;
  int requests_done = 0;
  std::array<ibv_gid_entry, 4> gids{};
};

/// A descriptor that is readable as long as something is queued, as those of the kernel's event files are.
class EventFile {
 public:
  EventFile();
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  int fd() const { return fd_; }
  void announce();
  /// Waits unless the descriptor is non-blocking; false: there is none.
  bool take();

 private:
  const int fd_;
};

struct Context : verbs_context {
  Device* on = nullptr;
  EventFile file;
  std::deque<ibv_async_event> events;
  int users = 0;  ///< domains, channels, completion queues
};
inline Context& of(ibv_context* context) {
  return *static_cast<Context*>(verbs_get_ctx(context));
}

struct Domain : ibv_pd {
  int users = 0;  ///< regions, queue pairs, addresses
};

struct Region : ibv_mr {
  int access = 0;
  int busy = 0;          ///< copies that use it
  bool leaving = false;  ///< no further copy uses it
  bool holds(std::uint64_t address, std::uint64_t size) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    return address >= begin && address - begin <= length && size <= length - (address - begin);
  }
};

struct CompletionQueue;
struct Channel : ibv_comp_channel {
  EventFile file;
  std::deque<CompletionQueue*> events;
  int users = 0;
};

struct CompletionQueue : ibv_cq {
  enum class Armed { no, urgent, any };
  /// A completion, and how many places in its queue pair's queue are free again when it is taken.
  struct Entry {
    ibv_wc completion;
    std::uint32_t places = 0;
    bool of_send = false;
  };
  std::deque<Entry> entries;
  Armed armed = Armed::no;
  unsigned got = 0;  ///< events
  unsigned acknowledged = 0;
  int users = 0;
};

struct Address : ibv_ah {
  const Device* target = nullptr;
};

struct Request {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool signalled = false;
  bool urgent = false;
  bool has_inline = false;
  std::vector<std::byte> inline_bytes;
  std::vector<ibv_sge> segments;
  std::uint64_t size = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  const Device* target = nullptr;  ///< of a datagram
  std::uint32_t target_number = 0;
  std::uint32_t target_key = 0;
};

struct Receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> segments;
};

struct QueuePair : ibv_qp {
  ibv_qp_cap limits{};
  std::deque<Request> sends;
  std::deque<Receive> receives;
  std::uint32_t sends_used = 0;  ///< posted, and not known as completed
  std::uint32_t receives_used = 0;
  std::uint32_t unsignalled = 0;  ///< of sends_used, carried out without a completion
  ibv_qp_attr attributes{};       ///< all that modify_qp said
  const Device* peer_device = nullptr;
  int busy = 0;                               ///< copies that use it
  bool leaving = false;                       ///< no further copy uses it
  int callers = 0;                            ///< that wait at a gate with it
  bool ready = false;                         ///< in World::ready
  std::optional<Clock::time_point> gives_up;  ///< its first request waits for the peer
};

class World {
 public:
  static World& get();

  std::mutex mutex;
  std::condition_variable changed;  ///< for everybody: there is work, a copy has ended, a gate was opened

  Limits limits;
  std::deque<Device> devices;
  int device_count = 1;
  std::set<Context*> contexts;
  int unacknowledged_events = 0;             ///< of devices
  std::map<std::uint32_t, Region*> regions;  ///< by local key; the remote one is the next number
  std::map<std::uint32_t, QueuePair*> pairs;
  std::map<std::string, std::size_t> live;
  const void* device_memory = nullptr;  ///< of a GPU: not to be registered by its address
  std::size_t device_memory_size = 0;
  std::uint32_t next_key = 0x1000;
  std::uint32_t next_pair = 0x11;
  std::uint32_t next_handle = 1;

  std::deque<QueuePair*> ready;
  bool paused = false;
  int fail_request_in = 0;
  ibv_wc_status fail_status = IBV_WC_SUCCESS;
  std::uint32_t fail_vendor_error = 0;

  /// Counts a call; 0, or the errno with which it is to fail. Waits while the function is held; `pair` must
  /// not go meanwhile.
  int enter(Lock& lock, const char* function, QueuePair* pair = nullptr);
  struct Function {
    int calls = 0;
    int fail_in = 0;
    int problem = 0;
    bool always = false;  ///< once it has begun to fail
    bool held = false;
    int waiting = 0;
  };
  std::map<std::string, Function> functions;

  Device* device_of(const ibv_gid& gid);
  Region* region_of(std::uint32_t local_key, const ibv_pd* domain);
  /// Aborts when a segment is not inside of its registration.
  void check_segments(const ibv_pd* domain, const std::vector<ibv_sge>& segments, bool written);

  void complete(CompletionQueue& queue, const CompletionQueue::Entry& entry, bool urgent);
  void complete_send(QueuePair& pair, const Request& request, ibv_wc_status status,
                     std::uint32_t vendor_error = 0);
  void complete_receive(QueuePair& pair, const Receive& receive, ibv_wc_status status, std::uint64_t size,
                        bool urgent = false, std::uint32_t from = 0);
  /// Everything that is queued comes back as flushed.
  void to_error(QueuePair& pair);
  void forget_work(QueuePair& pair);
  /// Returns when no copy uses it.
  void wait_until_idle(Lock& lock, const int& busy);
  void make_ready(QueuePair& pair);
  /// Requests that wait for their peer are tried again.
  void something_changed();

  void start_thread();
  void stop_thread(Lock& lock);

 private:
  World();
  void run();
  std::optional<Clock::time_point> next_deadline() const;
  // transfer.cc: carry out the first request of a queue pair.
  void step(QueuePair& pair, Lock& lock);
  void step_datagram(QueuePair& pair);
  void step_reliable(QueuePair& pair, Lock& lock);
  QueuePair* peer_of(const QueuePair& pair);
  void wait_for_peer(QueuePair& pair, Clock::duration patience, ibv_wc_status then);
  void step_send(QueuePair& pair, QueuePair& peer, Lock& lock);
  void step_rdma(QueuePair& pair, QueuePair& peer, Lock& lock);
  void finish(QueuePair& pair, ibv_wc_status status, std::uint32_t vendor_error = 0);
  void move(Lock& lock, QueuePair& pair, QueuePair& peer, const Request& request,
            const std::vector<ibv_sge>& theirs, Region* remote);

  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace stagewire::fake_verbs
