// As the target: answers what MORI-IO's engines ask, and keeps the queue pairs that they have asked for.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/rdma/mori/hub.hpp"
#include "backends/rdma/mori/pair.hpp"

namespace stagewire::backends::rdma::mori {

/// All of it under the hub's mutex.
class Acceptor {
 public:
  explicit Acceptor(Hub& hub) : hub_(hub) {}

  void asked(Control::Question question, const Message& message);
  /// Looks whether those are still there that have been silent, and forgets those that are not.
  void tick(base::TimePoint now);
  bool has_pairs() const { return !accepted_.empty(); }
  static constexpr base::Duration kTick = std::chrono::seconds(1);  ///< while it has some
  void end_all(const Error& reason);

 private:
  // An initiator that is gone says nothing: a write of no bytes finds out.
  static constexpr base::Duration kSilence = std::chrono::seconds(5);
  static constexpr std::size_t kMost = 1024;

  class Accepted;
  void accept(Control::Question question, const RegisterEndpoint& theirs);
  void tell_region(Control::Question question, const AskRegion& asked);
  void refuse(Control::Question question, const Error& reason);

  Hub& hub_;
  std::map<std::uint64_t, std::shared_ptr<Accepted>> accepted_;
  std::uint64_t next_ = 1;
  std::size_t under_way_ = 0;  ///< on the worker
  base::LogLimiter refused_log_;
};

}  // namespace stagewire::backends::rdma::mori
