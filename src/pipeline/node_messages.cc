#include "pipeline/node_messages.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "pipeline/json_check.hpp"
#include "pipeline/message_fields.hpp"

namespace stagewire::pipeline {

// One list of fields for each struct; the macro reads and writes by it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, protocol, release, name, pid, instance, boot_id, network, pipeline,
                                   stages, plan, options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Welcome, boot_id, heartbeat_timeout_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Refused, code, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Begin, request_id, replay, trace_digest, real_time, speed, timeout_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Started, position, pid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ToStage, position, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FromStage, position, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KillStage, position)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Exited, position, killed, number, last_words)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Beat, sent_at_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BeatAnswer, sent_at_us, at_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Leaving, code, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunEnd, ok, code, message, requests_done, requests_failed, audio_seconds)

namespace {

using nlohmann::json;

constexpr const char* kNames[] = {"hello",       "welcome",    "refused",    "begin",  "started",
                                  "to_stage",    "from_stage", "kill_stage", "exited", "beat",
                                  "beat_answer", "leaving",    "run_end"};
static_assert(std::size(kNames) == std::variant_size_v<NodeMessage>);

/// Reads the alternative that `type` names.
template <std::size_t Index = 0>
Result<NodeMessage> read_alternative(const std::string& type, const json& object) {
  if constexpr (Index == std::variant_size_v<NodeMessage>) {
    return base::error(ErrorCode::corrupt, "a node's message of an unknown type");
  } else {
    if (type == kNames[Index])
      return NodeMessage(object.get<std::variant_alternative_t<Index, NodeMessage>>());
    return read_alternative<Index + 1>(type, object);
  }
}

/// What people will read, or programs go by.
struct Cleaner {
  void operator()(Hello& hello) const {
    hello.name = base::printable(hello.name);
    hello.release = base::printable(hello.release);
    hello.pipeline = base::printable(hello.pipeline);
  }
  void operator()(Refused& refused) const { clean(refused.code, refused.message); }
  void operator()(Leaving& leaving) const { clean(leaving.code, leaving.message); }
  void operator()(RunEnd& end) const { clean(end.code, end.message); }
  void operator()(Exited& exited) const { exited.last_words = base::printable(exited.last_words); }
  template <typename T>
  void operator()(T&) const {}

 private:
  static void clean(ErrorCode& code, std::string& message) {
    code = known_code(code);
    message = base::printable(message);
  }
};

}  // namespace

std::string stage_list(const std::vector<int>& stages) {
  std::string list;
  for (const int stage : stages) list += (list.empty() ? "" : ", ") + std::to_string(stage);
  return (stages.size() == 1 ? "stage " : "stages ") + list;
}

std::string Hello::who() const {
  return base::text("node ", name, " (pid ", pid, ", ", stage_list(stages), ")");
}

std::string encode_node_message(const NodeMessage& message) {
  json object = std::visit([](const auto& fields) { return json(fields); }, message);
  object["type"] = kNames[message.index()];
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<NodeMessage> decode_node_message(std::string_view text) {
  try {
    const json object = json::parse(text);
    if (Status status = check_numbers(object); !status.ok())
      return status.error().with_context("a node's message");
    auto message = read_alternative(object.at("type").get<std::string>(), object);
    if (message.ok()) std::visit(Cleaner{}, *message);
    return message;
  } catch (const json::exception& error) {
    return base::error(ErrorCode::corrupt, "a node's message of ", text.size(),
                       " bytes: ", base::printable(error.what()));
  }
}

Message shift_clock(Message message, std::int64_t offset_us) {
  const auto shift = [offset_us](std::int64_t& at_us) {
    // 0 means that there is no such time. Unsigned: whoever sends nonsense gets nonsense.
    if (at_us != 0)
      at_us = static_cast<std::int64_t>(static_cast<std::uint64_t>(at_us) +
                                        static_cast<std::uint64_t>(offset_us));
  };
  if (auto* ended = std::get_if<RequestEnded>(&message)) {
    shift(ended->first_at_us);
    shift(ended->at_us);
  } else if (auto* progress = std::get_if<Progress>(&message)) {
    shift(progress->at_us);
  } else if (auto* done = std::get_if<Done>(&message)) {
    shift(done->at_us);
    shift(done->last_chunk_at_us);
  }
  return message;
}

}  // namespace stagewire::pipeline
