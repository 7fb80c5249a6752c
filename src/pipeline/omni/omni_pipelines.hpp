// The pipelines that replay the traffic of Qwen3-Omni and of Qwen2.5-Omni: thinker, talker and code2wav.
#pragma once

#include "pipeline/pipelines.hpp"

namespace stagewire::pipeline::omni {

const PipelineDefinition& qwen3_pipeline();
const PipelineDefinition& qwen25_pipeline();

}  // namespace stagewire::pipeline::omni
