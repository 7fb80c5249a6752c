#include "pipeline/pipelines.hpp"

#include <array>

#include "base/text.hpp"
#include "pipeline/omni/omni_pipelines.hpp"
#include "pipeline/speech/speech_pipeline.hpp"

namespace stagewire::pipeline {

Result<const PipelineDefinition*> find_pipeline(std::string_view name) {
  const std::array all{&speech::pipeline(), &omni::qwen3_pipeline(), &omni::qwen25_pipeline()};
  if (name.empty()) return all.front();
  std::string names;
  for (const PipelineDefinition* definition : all) {
    if (definition->name == name) return definition;
    names += (names.empty() ? "" : ", ") + std::string(definition->name);
  }
  return base::error(ErrorCode::invalid_argument, "there is no pipeline \"", name,
                     "\"; set `pipeline` to one of: ", names);
}

}  // namespace stagewire::pipeline

namespace stagewire {

bool is_replay(std::string_view pipeline) {
  const auto definition = pipeline::find_pipeline(pipeline);
  return definition.ok() && (*definition)->is_replay();
}

}  // namespace stagewire
