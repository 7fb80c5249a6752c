// When which request emits what: computed from the models' published rates, or read from a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/omni/model.hpp"

namespace stagewire::pipeline::omni {

/// One step of a stage for a request.
struct Step {
  double at_ms = 0;        ///< after the request's start
  std::int64_t count = 0;  ///< rows, or frames, that it makes
  std::int64_t needs = 0;  ///< rows after the prompt that the stage before must have sent; 0 = nothing
  bool last = false;
};

/// Steps with times that do not decrease; the last one is marked.
struct RequestSchedule {
  std::string external_id;
  double start_ms = 0;             ///< of the request, after the start of the run
  std::int64_t prompt_tokens = 0;  ///< rows of the thinker's first step
  std::vector<Step> thinker;
  std::vector<Step> talker;

  std::int64_t row_count() const;    ///< of all the thinker's steps
  std::int64_t frame_count() const;  ///< of all the talker's
};

/// What a stage takes for its work.
struct Rates {
  double prefill_ms = 0;  ///< the thinker for a prompt
  double token_ms = 0;    ///< the thinker for one more token
  double frame_ms = 0;    ///< the talker for a frame
};

/// At so many requests at once. From vLLM-Omni's published measurements of Qwen3-Omni (H800, 100 tokens in,
/// 100 tokens and their audio out) at 1, 4 and 10; on straight lines between and beyond them. For
/// Qwen2.5-Omni, of which there are none, audio is made as fast.
Rates rates_at(const Model& model, std::uint64_t concurrency);

/// Frames of the audio of so many tokens.
std::int64_t frames_of(const Model& model, std::int64_t output_tokens);

struct TrafficShape {
  std::int64_t prompt_tokens = 100;
  std::int64_t output_tokens = 100;
  std::uint64_t concurrency = 1;
  bool async_chunk = true;  ///< else the talker begins when the thinker has ended
};

/// A request of this shape; without an id.
RequestSchedule computed_schedule(const Model& model, const TrafficShape& shape);

}  // namespace stagewire::pipeline::omni
