// All requests of a replay.
#pragma once

#include <string>
#include <vector>

#include "pipeline/omni/schedule.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire::pipeline::omni {

/// Immutable.
class Traffic {
 public:
  /// Reads the trace where there is one. `invalid_argument` names the option that cannot be.
  static Result<Traffic> create(const Model& model, const ReplayOptions& options, bool async_chunk);

  std::uint64_t request_count() const;
  std::uint64_t concurrency() const { return shape_.concurrency; }  ///< requests at once
  RequestSchedule request(std::uint64_t number) const;
  // Of it, without computing its steps:
  std::string external_id(std::uint64_t number) const;
  std::int64_t frame_count(std::uint64_t number) const;
  std::uint64_t step_count(std::uint64_t number) const;  ///< of thinker and talker
  double start_ms(std::uint64_t number) const { return trace_.empty() ? 0 : trace_[number].start_ms; }

 private:
  explicit Traffic(const Model& model) : model_(&model) {}

  const Model* model_;
  TrafficShape shape_;
  std::uint64_t count_ = 0;             ///< of computed requests
  std::vector<RequestSchedule> trace_;  ///< or those of the trace
};

}  // namespace stagewire::pipeline::omni
