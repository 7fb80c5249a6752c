// What each of the three stages takes and makes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/omni/far_end.hpp"
#include "pipeline/omni/step_output.hpp"
#include "pipeline/omni/traffic.hpp"
#include "pipeline/stage_messages.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::pipeline::omni {

enum class StageRole { thinker, talker, code2wav };

/// The processors' options among those of a connector; `invalid_argument` for sizes that are none.
Result<ChunkProcessorOptions> processor_options(const std::map<std::string, std::int64_t>& options);

/// One request at one stage.
struct StageRequest {
  std::uint64_t number = 0;
  std::string internal_id;
  std::string external_id;
  std::int64_t prompt_tokens = 0;
  base::TimePoint started;
  std::unique_ptr<FarEnd> far_end;  ///< nullptr: nothing comes here
  std::vector<Step> steps;          ///< empty: nothing is made here
  std::size_t next_step = 0;
  std::int64_t made = 0;  ///< rows or frames
  std::vector<std::int64_t> prompt_ids, output_ids;
  bool queued = false;  ///< its next step waits for its time
  std::int64_t first_at_us = 0;

  bool has_received_all() const { return far_end == nullptr || far_end->finished(); }
  bool has_made_all() const { return next_step == steps.size(); }
  /// Whether what the next step needs has come.
  bool can_step() const;
};

/// The work of a role: everything about a request but when it is done.
class Stage {
 public:
  static Result<Stage> create(const Model& model, StageRole role, const Assignment& assignment);

  const Model& model() const { return contents_.model(); }
  StageRole role() const { return role_; }
  std::uint64_t request_count() const { return traffic_.request_count(); }
  /// nullptr for the last stage.
  Result<std::unique_ptr<ChunkProcessor>> make_processor() const;
  StageRequest begin(std::uint64_t number) const;
  std::string internal_id(std::uint64_t number) const;
  std::string external_id(std::uint64_t number) const { return traffic_.external_id(number); }
  /// Makes the next step; `request` is then as after it.
  StepOutput make_step(StageRequest& request) const;
  double audio_seconds(std::int64_t frames) const {
    return static_cast<double>(frames) / model().frames_per_second;
  }

 private:
  Stage(const Model& model, StageRole role, Traffic traffic, const Assignment& assignment);

  StageRole role_;
  Traffic traffic_;
  Contents contents_;
  bool async_chunk_;
  ChunkProcessorOptions options_;
  chunk::WindowSizes sizes_;
};

}  // namespace stagewire::pipeline::omni
