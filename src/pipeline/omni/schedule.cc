#include "pipeline/omni/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace stagewire::pipeline::omni {
namespace {

/// A line of the published table.
struct Measured {
  double concurrency;
  double time_per_token_ms;
  double real_time_factor;
  double first_packet_ms;
};
constexpr std::array kMeasured{Measured{1, 8.7, 0.22, 523}, Measured{4, 10.2, 0.29, 786},
                               Measured{10, 17.6, 0.41, 1629}};
constexpr double kMeasuredFrameRate = 12.5;
constexpr double kMeasuredFirstChunk = 25;  // frames

/// Without the chunk path the first packet of 100 tokens came after 6.5 s, when all was made: at a real-time
/// factor of 0.22 that was 29.5 s of audio.
constexpr double kAudioSecondsPerToken = 0.295;

double between(const Measured& low, const Measured& high, double Measured::*field, double concurrency) {
  const double share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency);
  return low.*field + share * (high.*field - low.*field);
}

std::int64_t sum_of(const std::vector<Step>& steps) {
  return std::accumulate(steps.begin(), steps.end(), std::int64_t{0},
                         [](std::int64_t sum, const Step& step) { return sum + step.count; });
}

}  // namespace

std::int64_t RequestSchedule::row_count() const {
  return sum_of(thinker);
}

std::int64_t RequestSchedule::frame_count() const {
  return sum_of(talker);
}

Rates rates_at(const Model& model, std::uint64_t concurrency) {
  const auto at = static_cast<double>(concurrency);
  const std::size_t line = at <= kMeasured[1].concurrency ? 0 : 1;
  const auto value = [&](double Measured::*field) {
    return between(kMeasured[line], kMeasured[line + 1], field, at);
  };
  const double real_time_factor = value(&Measured::real_time_factor);
  Rates rates;
  rates.token_ms = value(&Measured::time_per_token_ms);
  rates.frame_ms = real_time_factor * 1e3 / model.frames_per_second;
  // The first packet is the prompt, one more token and the frames of the first chunk.
  rates.prefill_ms = value(&Measured::first_packet_ms) - rates.token_ms -
                     kMeasuredFirstChunk * real_time_factor * 1e3 / kMeasuredFrameRate;
  return rates;
}

std::int64_t frames_of(const Model& model, std::int64_t output_tokens) {
  return std::llround(
      std::ceil(static_cast<double>(output_tokens) * kAudioSecondsPerToken * model.frames_per_second));
}

RequestSchedule computed_schedule(const Model& model, const TrafficShape& shape) {
  const Rates rates = rates_at(model, shape.concurrency);
  RequestSchedule schedule;
  schedule.prompt_tokens = shape.prompt_tokens;
  schedule.thinker.reserve(static_cast<std::size_t>(shape.output_tokens) + 1);
  schedule.thinker.push_back({rates.prefill_ms, shape.prompt_tokens, 0, false});
  for (std::int64_t token = 1; token <= shape.output_tokens; ++token) {
    schedule.thinker.push_back(
        {rates.prefill_ms + static_cast<double>(token) * rates.token_ms, 1, 0, token == shape.output_tokens});
  }
  // The talker says one token's row a step, as long as there are any.
  const double begin_ms = schedule.thinker[shape.async_chunk ? 1 : schedule.thinker.size() - 1].at_ms;
  const std::int64_t frames = frames_of(model, shape.output_tokens);
  schedule.talker.reserve(static_cast<std::size_t>(frames));
  for (std::int64_t frame = 1; frame <= frames; ++frame) {
    schedule.talker.push_back({begin_ms + static_cast<double>(frame) * rates.frame_ms, 1,
                               std::min(frame, shape.output_tokens), frame == frames});
  }
  return schedule;
}

}  // namespace stagewire::pipeline::omni
