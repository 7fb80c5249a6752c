// parse_trace() on arbitrary text: an error that names a line, or requests that can be replayed.
#include <cstdlib>
#include <string_view>

#include "pipeline/omni/trace.hpp"

namespace omni = stagewire::pipeline::omni;

namespace {

void check(const std::vector<omni::Step>& steps) {
  double before = 0;
  for (const omni::Step& step : steps) {
    const bool is_last = &step == &steps.back();
    if (step.last != is_last || step.at_ms < before || step.count < 0) std::abort();
    before = step.at_ms;
  }
  if (steps.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto trace = omni::parse_trace({reinterpret_cast<const char*>(data), size}, "trace");
  if (!trace.ok()) {
    if (trace.error().message().rfind("trace:", 0) != 0) std::abort();
    return 0;
  }
  if (trace->empty()) std::abort();
  for (const omni::RequestSchedule& request : *trace) {
    check(request.thinker);
    check(request.talker);
    if (request.prompt_tokens < 1 || request.row_count() < request.prompt_tokens || request.frame_count() < 1)
      std::abort();
  }
  return 0;
}
