// The other process of a bench: this program again, told over a socket what to do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace stagewire::bench {

/// What the partner is asked for; one fixed-size record a request.
struct Request {
  enum Kind : std::uint32_t {
    open,
    receive,
    stream,
    idle,
    memory,
    zmq_open,
    zmq_receive,
    chunks_open,
    chunks_load,
    chunks_receive,
    chunks_end,
    quit
  };
  Kind kind = quit;
  std::uint32_t count = 0;
  std::uint32_t window = 1;   ///< payloads under way at once
  std::uint32_t run = 0;      ///< of chunks: which set of streams
  std::uint32_t streams = 0;  ///< how many it has
  bool query_pull = false;    ///< they are received by the original's scheme
  bool one_by_one = false;    ///< each is answered to
  std::uint64_t size = 0;
  std::uint64_t pool_size = 0;
  std::int32_t port = 0;   ///< of the sender
  std::uint32_t wait = 0;  ///< WaitStrategy
  char route[16] = "auto";
  char endpoint[64] = "";  ///< for ZeroMQ
};

class Partner {
 public:
  /// Starts it; ends the program with a message when it cannot, and later as soon as it has ended by itself.
  Partner();
  ~Partner();  ///< tells it to quit and waits for it
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;
  void ask(const Request& request) const;
  /// What it answers to every request: numbers, whose meaning is the request's. Ends the program when it is
  /// gone, or silent for two minutes.
  std::vector<double> answer() const;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  int stop_watching_ = -1;  // an event
  std::thread watcher_;     // ends the program when the partner ends
};

/// Processor time of both processes while neither is asked for anything for `seconds`, over that time: 1 is
/// one core.
double idle_share(const Partner& partner, double seconds);
/// Resident bytes of the partner.
double resident_bytes(const Partner& partner);

/// The partner's own main function.
int partner_main(int socket);

}  // namespace stagewire::bench
