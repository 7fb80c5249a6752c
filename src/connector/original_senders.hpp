// Receiving from senders of the original's kind, which know only "query" and "pull", answer without saying to
// what, and write into a block that we grant. One request is under way for each address; keys that are not
// there yet are asked for again after a pause that grows.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "connector/subscriptions.hpp"

namespace stagewire::connector {

class OriginalSenders {
 public:
  /// `timeout`: of a pull, before what its size adds.
  OriginalSenders(Subscriptions& subscriptions, base::Duration timeout)
      : subscriptions_(subscriptions), timeout_(timeout) {}

  /// With the subscriptions' mutex held: the key is wanted from wanted->dial.
  void start(const std::shared_ptr<Subscriptions::Wanted>& wanted);
  // Without it, on the progress thread:
  void answer(const engine::DialPtr& dial, std::span<const std::byte> bytes);
  void disconnected(const engine::DialPtr& dial);

 private:
  enum class Stage { query, space, pull };
  struct Call {
    std::shared_ptr<Subscriptions::Wanted> wanted;
    base::Duration pause{0};  ///< before the next query
    Stage stage = Stage::query;
    std::uint64_t size = 0;
    bool raw = false;  ///< the original's is_fast_path: plain bytes, else an object
    memory::Pool::Offset block = 0;
    std::uint64_t timer = 0;
  };
  struct Line {
    std::deque<Call> queue;
    std::optional<Call> current;
    std::uint64_t round = 0;  ///< of the current call: a timer of an earlier one is too late
    /// Our pool, registered for the writes of whoever answers here; another one after a write was given up.
    std::shared_ptr<engine::LocalRegion> landing;
  };

  void pump(const engine::DialPtr& dial);
  void answer_to_query(const engine::DialPtr& dial, Call call, std::span<const std::byte> bytes);
  void begin_pull(const engine::DialPtr& dial, Call call);
  void send_pull(const engine::DialPtr& dial, Call call);
  void answer_to_pull(const engine::DialPtr& dial, const Call& call, std::span<const std::byte> bytes);
  void give_up(const engine::DialPtr& dial, const Call& call, const Error& error);
  Result<MemoryDesc> landing_for(const engine::DialPtr& dial);
  void revoke_landing(const engine::DialPtr& dial);
  base::Duration pull_timeout(std::uint64_t size) const;
  void request_timed_out(const engine::DialPtr& dial, std::uint64_t round);
  /// The call under way, if it is for `of` (nullptr: whatever it is for).
  std::optional<Call> take_current(const engine::DialPtr& dial, const Subscriptions::Wanted* of = nullptr);
  void set_current(const engine::DialPtr& dial, Call call, base::Duration timeout);
  bool still_wanted(const Call& call);
  void fail(const Call& call, const Error& error);

  Subscriptions& subscriptions_;
  const base::Duration timeout_;
  std::mutex mutex_;  ///< after the subscriptions' mutex
  std::map<engine::DialPtr, Line> lines_;
};

}  // namespace stagewire::connector
