// What a stage of a replay works with. Unlike a StageContext it serves many requests at once, so it has the
// connector itself.
#pragma once

#include "pipeline/stage_control.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::pipeline {

/// Everything outlives the stage.
struct ReplayContext {
  const Assignment& assignment;
  Connector& connector;
  StageControl& control;
};

/// From Start to Finish: serves what is admitted, says Done when all requests have ended. `cancelled` when
/// the pipeline stops.
using ReplayFunction = Status (*)(ReplayContext&);

}  // namespace stagewire::pipeline
