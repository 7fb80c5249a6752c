#include "pipeline/pipelines.hpp"

#include <array>

#include "base/text.hpp"
#include "pipeline/speech/speech_pipeline.hpp"

namespace stagewire::pipeline {

Result<const PipelineDefinition*> find_pipeline(std::string_view name) {
  const std::array all{&speech::pipeline()};
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
