// The demo pipeline: a WAV file, cut into frames, encoded, decoded and written down again by three stages.
#pragma once

#include "pipeline/pipelines.hpp"

namespace stagewire::pipeline::speech {

const PipelineDefinition& pipeline();

}  // namespace stagewire::pipeline::speech
