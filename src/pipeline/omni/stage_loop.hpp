// The small scheduler that each stage of a replay runs: it lets requests take their steps when their time has
// come and what they need is there, and hands everything to the stage's ChunkTransferAdapter.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/omni/stage_role.hpp"
#include "pipeline/omni/step_log.hpp"
#include "pipeline/omni/wake_up.hpp"
#include "pipeline/replay_context.hpp"

namespace stagewire::pipeline::omni {

/// One thread, which sleeps until something is due, has come or was ordered. A request's end, good or bad, is
/// told to the pipeline; only what concerns all requests ends the loop with an error.
class StageLoop {
 public:
  /// The context outlives the loop.
  static Result<std::unique_ptr<StageLoop>> create(Stage stage, const ReplayContext& context);
  ~StageLoop();

  /// Until every request of the traffic has ended here; says Done and waits for Finish.
  Status run();

 private:
  /// When a request's next step is due.
  struct Due {
    base::TimePoint time;
    std::uint64_t turn = 0;  // among equal times: first in, first out
    std::uint64_t request = 0;
    bool operator>(const Due& other) const { return std::tie(time, turn) > std::tie(other.time, other.turn); }
  };

  StageLoop(Stage stage, const ReplayContext& context);
  Status open_adapter();
  Status take_orders();
  void admit(const Admit& admit);
  void give_up(const GiveUp& order);
  void take_events();
  void take_event(const ChunkEvent& event);
  Status take_chunk(StageRequest& request, const stagewire::Chunk& chunk);
  void queue_step(StageRequest& request);
  void run_due_steps();
  Status run_step(StageRequest& request);
  void end_if_through(StageRequest& request);
  void fail(StageRequest& request, const Error& error);
  void end(const StageRequest& request, const RequestEnded& ended);
  void report_progress();
  void note_held();
  void wait();
  StageRequest* find(std::uint64_t number);

  const Stage stage_;
  const ReplayContext context_;
  const base::Duration beat_;  ///< between two signs of life
  WakeUp wake_up_;
  std::unordered_map<std::uint64_t, StageRequest> running_;
  std::map<std::string, std::uint64_t, std::less<>> by_internal_id_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t turns_ = 0;
  std::uint64_t ended_ = 0;
  std::int64_t frames_ = 0;  ///< received, of all requests
  std::int64_t last_chunk_at_us_ = 0;
  std::uint64_t most_held_ = 0;  ///< requests, by the window
  StepLog step_log_;
  base::TimePoint next_beat_{};
  std::vector<ChunkEvent> events_;
  std::unique_ptr<ChunkTransferAdapter> adapter_;  // last: its threads ring wake_up_
};

}  // namespace stagewire::pipeline::omni
