// decode_node_message() on arbitrary text, and the stage's message within: an error, or a message that is the
// same after a trip.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pipeline/node_messages.hpp"
#include "pipeline/node_registry.hpp"

namespace pipeline = stagewire::pipeline;

namespace {

void check_stage_message(std::string_view text) {
  const auto message = pipeline::decode_message(text);
  if (!message.ok()) return;
  const auto shifted = pipeline::shift_clock(*message, 12345);
  if (shifted.index() != message->index()) std::abort();
  static_cast<void>(pipeline::encode_message(shifted));
}

/// Whatever a node says of itself, the registry takes it or not.
void check_hello(const pipeline::Hello& hello) {
  pipeline::Hello own;
  own.stages = {0};
  pipeline::NodeRegistry registry(own, {0, 1, 2});
  const bool taken = registry.admit("a", hello).ok();
  if (taken != (registry.find("a") != nullptr)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = pipeline::decode_node_message({reinterpret_cast<const char*>(data), size});
  if (!message.ok()) {
    if (message.error().code() != stagewire::ErrorCode::corrupt) std::abort();
    return 0;
  }
  const std::string text = pipeline::encode_node_message(*message);
  const auto again = pipeline::decode_node_message(text);
  if (!again.ok() || pipeline::encode_node_message(*again) != text) std::abort();
  if (const auto* to = std::get_if<pipeline::ToStage>(&*message)) check_stage_message(to->message);
  if (const auto* from = std::get_if<pipeline::FromStage>(&*message)) check_stage_message(from->message);
  if (const auto* hello = std::get_if<pipeline::Hello>(&*message)) check_hello(*hello);
  return 0;
}
