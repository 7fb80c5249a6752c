// The port at which MORI-IO's engines ask for queue pairs and for keys of regions, and our own questions to
// theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "backends/rdma/mori/exchange.hpp"

namespace stagewire::backends::rdma::mori {

/// Not thread-safe; never blocks. Everybody who is connected has a deadline.
class Control {
 public:
  using Question = std::uint64_t;
  /// A question of a peer's: to be answered by answer(), or by refuse(), at once or later.
  using Asked = std::function<void(Question, const Message&)>;
  /// The answer to a question of ours, or why there is none. May call ask().
  using Answered = std::function<void(Result<Message>)>;

  /// Listens at `host`, an IPv4 address in digits. `conflict` when the port is taken.
  static Result<std::unique_ptr<Control>> create(const std::string& host, int port, Asked asked);

  int port() const { return port_; }
  /// Readable when progress() has something to do.
  int fd() const { return epoll_.get(); }
  /// Whether something has to be given up in time: then progress() wants to be called every kTick.
  bool waits() const { return !callers_.empty() || !calls_.empty(); }
  static constexpr base::Duration kTick = std::chrono::milliseconds(100);

  void progress(base::TimePoint now);
  /// The peer that asked is answered, if it is still there.
  void answer(Question question, const Message& message);
  /// MORI-IO has no answer that says no: the connection is closed.
  void refuse(Question question);
  /// `answered` is called by progress(), once; never when this object goes first.
  void ask(const std::string& host, int port, const Message& message, Answered answered);

 private:
  static constexpr std::size_t kMostCallers = 128;
  static constexpr base::Duration kPatience = std::chrono::seconds(5);

  struct Caller {
    Exchange exchange;
    base::TimePoint deadline;
    bool asked = false;
    bool answered = false;
  };
  struct Call {
    std::unique_ptr<Exchange> exchange;  ///< nullptr: `trouble` says why
    base::TimePoint deadline;
    Answered answered;
    Status trouble;
    std::string where;
  };

  explicit Control(Asked asked) : asked_(std::move(asked)) {}
  Status listen(const std::string& host, int port);
  Status watch(int fd, std::uint32_t events);
  void accept_callers(base::TimePoint now);
  bool serve(Question question, Caller& caller);
  Result<bool> advance(Call& call);

  const Asked asked_;
  base::UniqueFd epoll_;
  base::UniqueFd listener_;
  int port_ = 0;
  std::uint64_t next_ = 1;
  std::map<Question, Caller> callers_;
  std::map<std::uint64_t, Call> calls_;
};

}  // namespace stagewire::backends::rdma::mori
