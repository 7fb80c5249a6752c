// Tells the pipeline what a stage has made when, for a trace of the run.
#pragma once

#include "pipeline/stage_control.hpp"

namespace stagewire::pipeline::omni {

/// One thread. The control outlives it.
class StepLog {
 public:
  StepLog(const StageControl& control, bool wanted) : control_(control), wanted_(wanted) {}

  void add(const MadeStep& step) {
    if (!wanted_) return;
    made_.steps.push_back(step);
    if (made_.steps.size() == kMostSteps) flush();
  }
  /// Says what has not been said yet.
  void flush() {
    if (made_.steps.empty()) return;
    // A pipeline that is gone has stopped this stage, which then ends for that reason.
    static_cast<void>(control_.send(made_));
    made_.steps.clear();
  }

 private:
  static constexpr std::size_t kMostSteps =
      500;  // to a message: at most 50 KB of the 64 KiB that it may have

  const StageControl& control_;
  const bool wanted_;
  StepsMade made_;
};

}  // namespace stagewire::pipeline::omni
