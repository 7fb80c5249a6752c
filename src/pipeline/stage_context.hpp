// What a stage function works with: chunks in, chunks out. It knows nothing of processes and connectors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "stagewire/payload.hpp"
#include "stagewire/result.hpp"

namespace stagewire::pipeline {

/// One chunk that has arrived. The payload's views are valid as long as the chunk lives; it holds the
/// sender's memory for so long, so keep it short.
struct Chunk {
  Value payload;
  std::shared_ptr<const void> memory;  ///< what the payload points into
};

/// One stage of one request; one thread at a time. Waits end with an error at the latest after the pipeline's
/// timeout, and at once when the pipeline is stopped.
class StageContext {
 public:
  virtual ~StageContext() = default;

  virtual const std::string& input() const = 0;  ///< the request's input file
  virtual int output() const = 0;  ///< its output file, open for writing; -1 in all but the last stage
  virtual const std::map<std::string, std::int64_t>& chunk_options() const = 0;

  /// Waits for the next chunk of the stage before this one.
  virtual Result<Chunk> receive() = 0;
  /// Gives the next chunk to the stage after this one; waits until it has taken the chunks before, and while
  /// memory is full. The payload is copied.
  virtual Status send(const Value& payload) = 0;
  /// Where the pipeline runs in real time: waits until so much time has passed since the first call. Else
  /// returns at once.
  virtual Status pace(base::Duration since_first) = 0;
  /// So much of the request is done, in seconds of audio.
  virtual void report_progress(double audio_seconds) = 0;
};

using StageFunction = Status (*)(StageContext&);

}  // namespace stagewire::pipeline
