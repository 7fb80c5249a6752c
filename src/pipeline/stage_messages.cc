#include "pipeline/stage_messages.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "pipeline/json_check.hpp"
#include "pipeline/message_fields.hpp"

// One list of fields for each struct; the macro reads and writes by it.
namespace stagewire {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RouteCounters, count, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ConnectorConfig, stage_id, role, host, zmq_port, backend_type,
                                   backend_settings, memory_pool_size, memory_pool_device, sender_host,
                                   sender_zmq_port, buffer_ttl_s, original_timeout_s, lease_share, route,
                                   wait, secret_key, fault_spec)
}  // namespace stagewire

namespace stagewire::pipeline {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Assignment, pipeline, position, stage_id, upstream, downstream, request_id,
                                   input, output_fd, real_time, speed, async_chunk, active_stream_window,
                                   record_steps, replay, timeout_ms, chunk_options, connector)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ready, host, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Start, upstream_host, upstream_port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Admit, first, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GiveUp, request, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RequestEnded, request, ok, code, message, first_at_us, at_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Progress, audio_seconds, at_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MadeStep, request, at_us, count, last)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepsMade, steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Done, at_us, last_chunk_at_us, chunks, bytes, most_held, eager, lease,
                                   read, write, route_reason, latency_p50_us, latency_p90_us, latency_p99_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failed, code, message)

// Messages without fields. Found by their argument's namespace, hence not in the anonymous one.
inline void to_json(nlohmann::json& object, const Finish&) {
  object = nlohmann::json::object();
}
inline void from_json(const nlohmann::json&, Finish&) {}
inline void to_json(nlohmann::json& object, const Stop&) {
  object = nlohmann::json::object();
}
inline void from_json(const nlohmann::json&, Stop&) {}

namespace {

using nlohmann::json;

constexpr const char* kNames[] = {"assignment", "ready",         "start", "admit",  "give_up", "progress",
                                  "steps_made", "request_ended", "done",  "failed", "finish",  "stop"};
static_assert(std::size(kNames) == std::variant_size_v<Message>);

/// Reads the alternative that `type` names.
template <std::size_t Index = 0>
Result<Message> read_alternative(const std::string& type, const json& object) {
  if constexpr (Index == std::variant_size_v<Message>) {
    return base::error(ErrorCode::corrupt, "a control message of the unknown type \"", type, "\"");
  } else {
    if (type == kNames[Index]) return Message(object.get<std::variant_alternative_t<Index, Message>>());
    return read_alternative<Index + 1>(type, object);
  }
}

void check_code(Message& message) {
  if (auto* failed = std::get_if<Failed>(&message)) failed->code = known_code(failed->code);
  if (auto* ended = std::get_if<RequestEnded>(&message)) ended->code = known_code(ended->code);
}

}  // namespace

std::string encode_message(const Message& message) {
  json object = std::visit([](const auto& fields) { return json(fields); }, message);
  object["type"] = kNames[message.index()];
  // Texts may hold a path's bytes, which need not be UTF-8.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Message> decode_message(std::string_view text) {
  try {
    const json object = json::parse(text);
    if (Status status = check_numbers(object); !status.ok())
      return status.error().with_context("a control message");
    auto message = read_alternative(object.at("type").get<std::string>(), object);
    if (message.ok()) check_code(*message);
    return message;
  } catch (const json::exception& error) {
    return base::error(ErrorCode::corrupt, "a control message of ", text.size(), " bytes: ", error.what());
  }
}

}  // namespace stagewire::pipeline
