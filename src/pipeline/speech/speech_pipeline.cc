#include "pipeline/speech/speech_pipeline.hpp"

#include <array>

#include "pipeline/speech/stages.hpp"
#include "pipeline/speech/wav_reader.hpp"

namespace stagewire::pipeline::speech {
namespace {

Result<double> check_input(const std::string& path) {
  const auto wav = WavReader::open(path);
  if (!wav.ok()) return wav.error();
  return wav->format().audio.seconds(wav->format().sample_count);
}

Status check_options(const std::map<std::string, std::int64_t>& options) {
  const auto sizes = chunk_sizes(options);
  return sizes.ok() ? Status() : sizes.error();
}

constexpr std::array kStages{StageDefinition{"reader", read_speech},
                             StageDefinition{"encoder", encode_speech},
                             StageDefinition{"decoder", decode_speech}};

}  // namespace

const PipelineDefinition& pipeline() {
  static constexpr PipelineDefinition kPipeline{"speech", kStages, check_input, check_options};
  return kPipeline;
}

}  // namespace stagewire::pipeline::speech
