// What a processor keeps of each request, and the processor that keeps it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/string_map.hpp"
#include "stagewire/chunk.hpp"

namespace stagewire::chunk {

/// One State for each external id. Looking one up allocates nothing.
template <typename State>
class RequestStates {
 public:
  /// nullptr when there is none. Addresses stay valid until the state is erased.
  State* find(std::string_view external_id) {
    const auto found = states_.find(external_id);
    return found == states_.end() ? nullptr : &found->second;
  }
  State& get(std::string_view external_id) {
    State* const known = find(external_id);
    return known != nullptr ? *known : states_[std::string(external_id)];
  }
  void erase(std::string_view external_id) {
    const auto found = states_.find(external_id);
    if (found != states_.end()) states_.erase(found);
  }

 private:
  base::StringMap<State> states_;
};

/// A processor whose memory is one State a request. `State::end_segment()` drops what the next segment must
/// not see. One thread at a time.
template <typename State>
class PerRequestProcessor : public ChunkProcessor {
 public:
  void end_segment(std::string_view external_id) final {
    if (State* state = states_.find(external_id)) state->end_segment();
  }
  void forget(std::string_view external_id) final { states_.erase(external_id); }

 protected:
  RequestStates<State> states_;
};

}  // namespace stagewire::chunk
