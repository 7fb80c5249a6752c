// How the stages of a run ended, and which end is the reason of the others.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "pipeline/child_process.hpp"
#include "pipeline/stage_messages.hpp"

namespace stagewire::pipeline {

struct StageOutcome {
  int stage_id = 0;
  std::string name;  ///< "encoder"
  pid_t pid = 0;
  std::string place;               ///< "on vm2"; empty: on this host
  std::optional<Failed> failed;    ///< what it said
  std::uint64_t order = 0;         ///< of its failure or end among all, from 1; 0 = it did not fail
  std::optional<ExitStatus> exit;  ///< nullopt: it had to be killed
  std::string last_words;

  std::string who() const;  ///< "stage 1 (encoder, pid 4711 on vm2)"
};

/// How much an error of this kind looks like the consequence of another stage's: 0 not at all, 1 like the end
/// of a peer or of patience, 2 like what a peer was told that gave up.
int consequence_rank(ErrorCode code);

/// The error that ended a run that failed. A stage that died without a word comes first: peers notice a death
/// and complain of it, often sooner than it is seen here. Next what a stage failed of on its own, last what
/// looks like the consequence of another stage's end; among equals the earliest.
Error root_cause(std::span<const StageOutcome> outcomes);

}  // namespace stagewire::pipeline
