// What save() queues: one step of a request, or the end of the request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "chunk/chunk_flags.hpp"
#include "chunk/copied_value.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// A list of ids that mostly grows: what a step adds to it, so that a long prompt is not copied for each.
class IdsUpdate {
 public:
  /// `known`: how many of them whoever applies the updates has.
  void set(std::span<const std::int64_t> ids, std::size_t known) {
    keep_ = known <= ids.size() ? known : 0;
    added_.assign(ids.begin() + static_cast<std::ptrdiff_t>(keep_), ids.end());
  }
  void apply(std::vector<std::int64_t>& ids) const {
    ids.resize(keep_);
    ids.insert(ids.end(), added_.begin(), added_.end());
  }

 private:
  std::size_t keep_ = 0;
  std::vector<std::int64_t> added_;
};

/// One entry of a lane's queue. Used again and again: a step like the one before takes no new memory.
struct SavedStep {
  enum class Kind { step, end, abort } kind = Kind::step;
  ChunkFlags flags;
  IdsUpdate prompt_ids, output_ids;
  std::string internal_id, speaker, language;
  bool resumable = false;
  CopiedValue copy;
  Value borrowed;  ///< with an owner
  std::shared_ptr<const void> owner;
  std::string reason;  ///< of an abort
  SavedStep* next = nullptr;

  const Value& output() const { return owner ? borrowed : copy.value(); }
  bool terminal() const { return flags.finished || flags.segment_finished; }
};

/// The steps of one request, first in, first out. Owns none of them.
class StepQueue {
 public:
  SavedStep* front() const { return first_; }
  void push(SavedStep* step) {
    step->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = step;
    last_ = step;
  }
  void pop() { first_ = first_->next; }

 private:
  SavedStep* first_ = nullptr;
  SavedStep* last_ = nullptr;
};

}  // namespace stagewire::chunk
