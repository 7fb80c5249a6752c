// The sending half: saved steps are turned into chunks and put, by one thread at a time: by a worker, or by
// the thread that saves a small step when there is nothing else to do, which spares the worker's wake.
//
// Each request has a lane: a queue of steps, in order. The lanes that have something are served in turn, one
// step each. A lane whose chunk finds no space in the pool waits for it, outside of the turn, until the
// connector grants a block; the others go on. A lane belongs to its queue's users under mutex_, the part
// named `work` to the thread that serves it alone, while the lane's state is `running`.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/recent_map.hpp"
#include "base/string_map.hpp"
#include "chunk/chunk_key.hpp"
#include "chunk/ready_signal.hpp"
#include "chunk/saved_step.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

struct SendFailure {
  std::string internal_id;
  Error error;
};

/// A request that was sent: what may still come late is about it.
struct PastRequest {
  std::int64_t chunks = 0;
  bool aborted = false;  ///< the connector may still tell whoever asks for a chunk that it was
};

class Sender : public std::enable_shared_from_this<Sender> {
 public:
  struct Edge {
    std::string from, to;
    Milliseconds space_timeout{0};
  };
  Sender(Connector& connector, std::unique_ptr<ChunkProcessor> processor, Edge edge,
         std::shared_ptr<ReadySignal> ready);
  ~Sender();
  /// Before the first save, and once it is held by a shared_ptr. `exhausted`: no thread is to be had.
  Status start();
  /// Ends the worker; receivers of what was not finished are told. Before the destructor.
  void stop();

  Status save(const ChunkRequest& request, const Value& output, const StepState& state,
              std::shared_ptr<const void> owner);
  void finish(std::string_view external_id);
  void abort(std::string_view external_id, std::string_view reason);
  Status flush(Milliseconds timeout);
  /// The oldest failure that has not been taken.
  std::optional<SendFailure> take_failure();
  void count(ChunkCounters& counters) const;

 private:
  /// What happens to a chunk's request when the receiver wants no more of it.
  struct GivenUp {
    std::int64_t chunk = 0;  ///< the first that is not wanted
    Error error;
  };
  enum class State { idle, queued, running, waiting };
  /// What a lane waits for outside of the turn.
  enum class WaitFor { space, receivers };

  struct Lane {
    std::string external_id;
    State state = State::idle;
    Lane* next_ready = nullptr;
    StepQueue steps;
    std::optional<GivenUp> given_up;
    bool aborting = false;                      ///< an abort is among the steps
    std::uint64_t ticket = 0;                   ///< of the wait under way
    std::optional<Result<PoolBuffer>> granted;  ///< how one for space ended
    std::optional<Status> heard_out;            ///< how one for receivers ended
    bool hearing_out = false;                   ///< what is given up until then is of the id's former use
    // Of the use of the id that save() is in:
    bool open = false;
    std::int64_t watermark = 0;
    std::size_t prompt_count = 0, output_count = 0;  ///< ids that were queued

    /// Of the use of the id that is being sent.
    struct Work {
      bool begun = false;
      bool reused = false;  ///< receivers may still have to say something about the former use
      bool failed = false;  ///< what follows, up to the end, is discarded
      ChunkKey key;
      std::int64_t next_chunk = 0;
      std::vector<std::int64_t> prompt_ids, output_ids;
      std::string internal_id;
      Value* payload = nullptr;  ///< the processor's, or `end`; waits for space
      Value end;                 ///< a chunk that only says that it is the last
    } work;
  };

  /// Holds mutex_, and wakes the worker, if it has something to do, when that is free again, so that it need
  /// not wait for it.
  class Turn {
   public:
    explicit Turn(Sender& sender) : sender_(sender), lock_(sender.mutex_) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      const bool due = sender_.worker_is_due();
      lock_.unlock();
      if (due) sender_.wake_.notify_one();
    }
    std::unique_lock<std::mutex>& lock() { return lock_; }

   private:
    Sender& sender_;
    std::unique_lock<std::mutex> lock_;
  };

  // sender.cc
  void run();
  bool worker_is_due() const;
  bool can_be_served_here(const Lane& lane, const SavedStep& step) const;
  void serve_first(std::unique_lock<std::mutex>& lock);
  void make_ready(Lane& lane);
  Lane& lane_of(std::string_view external_id);
  Lane* find(std::string_view external_id);
  void enqueue(Lane& lane, SavedStep* step);
  SavedStep* take_step();
  void recycle(SavedStep* step);
  void drop_steps(Lane& lane);
  void leave(Lane& lane, bool step_done);
  void interrupt(Lane& lane);
  void receiver_gave_up(std::string_view key, const Error& reason);
  std::uint64_t start_wait(Lane& lane, WaitFor what);
  Lane* end_wait(std::uint64_t ticket);

  // sender_lane.cc, of the thread that serves, without mutex_. Those that return bool: whether they are done
  // with the step; if not, the lane waits with it.
  bool serve(Lane& lane, const SavedStep& step, std::optional<Result<PoolBuffer>> granted,
             const std::optional<Status>& heard_out);
  bool serve_step(Lane& lane, const SavedStep& step);
  Result<Value*> process(Lane& lane, const SavedStep& step);
  bool put(Lane& lane, const SavedStep& step);
  bool wait_for_space(Lane& lane);
  void space_granted(std::uint64_t ticket, Result<PoolBuffer> buffer);
  bool hear_out_receivers(Lane& lane);
  void put_granted(Lane& lane, const SavedStep& step, Result<PoolBuffer> buffer);
  void after_put(Lane& lane, const SavedStep& step, const Result<PutResult>& put);
  void begin(Lane& lane, const SavedStep& step);
  void serve_end(Lane& lane);
  void serve_abort(Lane& lane, std::string_view reason);
  void give_up(Lane& lane, const GivenUp& given_up);
  void fail(Lane& lane, std::int64_t chunk, const Error& error);
  void forget(Lane& lane, bool aborted);
  void tell(Lane& lane, std::int64_t chunk, std::string_view reason);
  void withdraw(Lane& lane, std::int64_t count, std::string_view reason);

  Connector& connector_;
  const std::unique_ptr<ChunkProcessor> processor_;
  const Edge edge_;
  const std::shared_ptr<ReadySignal> ready_signal_;
  std::thread worker_;

  mutable std::mutex mutex_;  ///< guards what follows; never held across a call to connector or processor
  std::condition_variable wake_, flushed_;
  bool stopping_ = false;
  base::StringMap<std::unique_ptr<Lane>> lanes_;  ///< by external id
  Lane* first_ready_ = nullptr;
  Lane* last_ready_ = nullptr;
  std::vector<std::unique_ptr<SavedStep>> steps_;  ///< all there are: queued, or spare
  StepQueue spare_;
  std::uint64_t queued_ = 0;  ///< steps, the one being served included
  std::uint64_t last_ticket_ = 0;
  std::map<std::uint64_t, std::pair<Lane*, WaitFor>> waits_;  ///< by ticket
  bool serving_ = false;                                      ///< somebody does
  std::deque<SendFailure> failures_;
  bool raise_due_ = false;  ///< the worker is to say that there is a new one
  ChunkCounters counters_;

  base::RecentMap<PastRequest, 1024> past_;  ///< by external id; of the thread that serves
};

}  // namespace stagewire::chunk
