#include "deploy/schema.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "deploy/nearest.hpp"

namespace stagewire::deploy {
namespace {

constexpr auto kBoolean = ValueType::boolean;
constexpr auto kInteger = ValueType::integer;
constexpr auto kNumber = ValueType::number;
constexpr auto kSize = ValueType::size;
constexpr auto kText = ValueType::text;
constexpr auto kToken = ValueType::token;
constexpr auto kChoice = ValueType::choice;
constexpr auto kMap = ValueType::map;
constexpr auto kList = ValueType::list;
constexpr auto kOurs = Origin::stagewire;
constexpr auto kEngine = Use::engine;
constexpr double kMaxCount = 1'000'000;

constexpr KeySpec kTopLevel[] = {
    {.name = "base_config",
     .type = kText,
     .meaning = "A file that this one is laid over, relative to this file; it may have a base of its own."},
    {.name = "pipeline", .type = kText, .meaning = "Registry key of a structural variant of the pipeline."},
    {.name = "async_chunk",
     .type = kBoolean,
     .fallback = "true",
     .meaning =
         "Stages hand over chunks as they are made, not whole results; a single stage has nothing to hand "
         "over and runs with false."},
    {.name = "connectors",
     .type = kMap,
     .meaning = "Connectors by name, for `input_connectors`, `output_connectors` and `edges` to refer to."},
    {.name = "edges",
     .type = kList,
     .meaning = "Edges between stages, where the stages do not name them themselves."},
    {.name = "stages", .type = kList, .meaning = "The stages, in any order."},
    {.name = "platforms",
     .type = kMap,
     .meaning = "Sections `npu`, `rocm`, `xpu` and `cuda`; the one that is chosen is laid over the rest."},
    {.name = "session_mode",
     .type = kChoice,
     .fallback = "turn",
     .choices = "turn|duplex",
     .use = kEngine,
     .meaning = "Whether a session takes turns or both sides speak at once."},
    {.name = "model_runner",
     .type = kChoice,
     .fallback = "v1",
     .choices = "v1|v2",
     .use = kEngine,
     .meaning = "Model runner generation."},
    {.name = "active_stream_window",
     .type = kInteger,
     .fallback = "0",
     .minimum = 0,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "How many streams may be active at once; 0 = no bound."},
    {.name = "duplex_session",
     .type = kMap,
     .use = kEngine,
     .meaning = "Limits of duplex sessions, see below."},
    {.name = "trust_remote_code",
     .type = kBoolean,
     .use = kEngine,
     .meaning = "Pipeline-wide engine argument."},
    {.name = "distributed_executor_backend", .use = kEngine, .meaning = "Pipeline-wide engine argument."},
    {.name = "dtype", .use = kEngine, .meaning = "Pipeline-wide engine argument."},
    {.name = "quantization", .use = kEngine, .meaning = "Pipeline-wide engine argument."},
    {.name = "enable_prefix_caching",
     .type = kBoolean,
     .use = kEngine,
     .meaning = "Pipeline-wide engine argument."},
    {.name = "enable_chunked_prefill",
     .type = kBoolean,
     .use = kEngine,
     .meaning = "Pipeline-wide engine argument."},
    {.name = "data_parallel_size",
     .type = kInteger,
     .minimum = 1,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "Pipeline-wide engine argument."},
    {.name = "pipeline_parallel_size",
     .type = kInteger,
     .minimum = 1,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "Pipeline-wide engine argument."},
    {.name = "custom_voice_dir", .use = kEngine, .meaning = "Pipeline-wide engine argument."},
};

constexpr KeySpec kStage[] = {
    {.name = "stage_id",
     .type = kInteger,
     .minimum = 0,
     .maximum = 65535,
     .meaning = "The stage's number, unique in the file; required."},
    {.name = "devices", .type = kToken, .meaning = "Devices that the stage sees, such as `0` or `0,1`."},
    {.name = "num_replicas",
     .type = kInteger,
     .fallback = "1",
     .minimum = 1,
     .maximum = 1024,
     .meaning = "Processes of this stage; more than one only for a stage without edges."},
    {.name = "env", .type = kMap, .meaning = "Environment variables of the stage's process."},
    {.name = "async_chunk",
     .type = kBoolean,
     .fallback = "true",
     .meaning = "`false`: this stage opts out of chunks; both ends of an edge must agree."},
    {.name = "input_connectors",
     .type = kMap,
     .meaning = "`from_stage_N: connector`, by name or written out as `{name, extra}`; one at most."},
    {.name = "output_connectors",
     .type = kMap,
     .meaning = "`to_stage_N: connector`, by name or written out as `{name, extra}`."},
    {.name = "runtime", .type = kMap, .meaning = "Older place for `devices`, `num_replicas` and `env`."},
    {.name = "engine_args",
     .type = kMap,
     .use = kEngine,
     .meaning = "Older place for engine options; its keys are kept as if they stood in the stage."},
    {.name = "engine_extras",
     .type = kMap,
     .use = kEngine,
     .meaning = "More engine options; its keys are kept as if they stood in the stage."},
    {.name = "default_sampling_params",
     .type = kMap,
     .use = kEngine,
     .meaning = "Sampling defaults of the stage."},
    {.name = "default_pooling_params",
     .type = kMap,
     .use = kEngine,
     .meaning = "Pooling defaults of the stage."},
    {.name = "subtalker_sampling_params",
     .type = kMap,
     .use = kEngine,
     .meaning = "Sampling defaults inside a talker."},
    {.name = "silence_ban_frames", .use = kEngine, .meaning = "Engine option."},
    {.name = "model_runner",
     .type = kChoice,
     .choices = "v1|v2",
     .use = kEngine,
     .meaning = "Model runner generation of this stage."},
    {.name = "tensor_parallel_size",
     .type = kInteger,
     .minimum = 1,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "Ranks of the stage; a stage with an edge has one."},
    {.name = "enable_expert_parallel", .type = kBoolean, .use = kEngine, .meaning = "Engine option."},
    {.name = "gpu_memory_utilization",
     .type = kNumber,
     .minimum = 0,
     .maximum = 1,
     .use = kEngine,
     .meaning = "Share of the device's memory that the engine takes."},
    {.name = "max_num_seqs", .type = kInteger, .minimum = 1, .use = kEngine, .meaning = "Engine option."},
    {.name = "max_num_batched_tokens",
     .type = kInteger,
     .minimum = 1,
     .use = kEngine,
     .meaning = "Engine option."},
    {.name = "max_model_len", .use = kEngine, .meaning = "Engine option."},
    {.name = "enforce_eager", .type = kBoolean, .use = kEngine, .meaning = "Engine option."},
    {.name = "async_scheduling", .type = kBoolean, .use = kEngine, .meaning = "Engine option."},
    {.name = "disable_hybrid_kv_cache_manager",
     .type = kBoolean,
     .use = kEngine,
     .meaning = "Engine option."},
    {.name = "mm_processor_cache_gb",
     .type = kNumber,
     .minimum = 0,
     .use = kEngine,
     .meaning = "Engine option."},
    {.name = "mamba_ssm_cache_dtype", .use = kEngine, .meaning = "Engine option."},
    {.name = "compilation_config", .use = kEngine, .meaning = "Engine option."},
    {.name = "profiler_config", .use = kEngine, .meaning = "Engine option."},
    {.name = "skip_mm_profiling", .type = kBoolean, .use = kEngine, .meaning = "Engine option."},
    {.name = "enable_flashinfer_autotune", .type = kBoolean, .use = kEngine, .meaning = "Engine option."},
    {.name = "config_format", .use = kEngine, .meaning = "Engine option."},
    {.name = "load_format", .use = kEngine, .meaning = "Engine option."},
    {.name = "tokenizer_mode", .use = kEngine, .meaning = "Engine option."},
};

constexpr KeySpec kRuntime[] = {
    {.name = "devices", .type = kToken, .meaning = "As in the stage."},
    {.name = "num_replicas",
     .type = kInteger,
     .fallback = "1",
     .minimum = 1,
     .maximum = 1024,
     .meaning = "As in the stage."},
    {.name = "env", .type = kMap, .meaning = "As in the stage."},
};

constexpr KeySpec kEdge[] = {
    {.name = "from",
     .type = kInteger,
     .minimum = 0,
     .maximum = 65535,
     .meaning = "Stage that sends; required."},
    {.name = "to",
     .type = kInteger,
     .minimum = 0,
     .maximum = 65535,
     .meaning = "Stage that receives; required."},
    {.name = "connector",
     .type = ValueType::any,
     .origin = kOurs,
     .meaning = "The connector, by name or written out as `{name, extra}`, unless the stages name it."},
    {.name = "window_size",
     .type = kInteger,
     .fallback = "-1",
     .minimum = -1,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "Accepted, without effect."},
    {.name = "max_inflight",
     .type = kInteger,
     .fallback = "1",
     .minimum = 1,
     .maximum = kMaxCount,
     .use = kEngine,
     .meaning = "Accepted, without effect."},
};

constexpr KeySpec kConnector[] = {
    {.name = "name",
     .type = kText,
     .meaning = "The connector's class: `MoriTransferEngineConnector`; required."},
    {.name = "extra", .type = kMap, .meaning = "Its configuration, see below."},
};

constexpr KeySpec kDuplexSession[] = {
    {.name = "idle_ttl_s",
     .type = kNumber,
     .fallback = "300",
     .minimum = 1e-3,
     .use = kEngine,
     .meaning = "Seconds after which an idle session ends."},
    {.name = "disconnect_grace_s",
     .type = kNumber,
     .fallback = "30",
     .minimum = 1e-3,
     .use = kEngine,
     .meaning = "Seconds in which a client may come back."},
    {.name = "reaper_interval_s",
     .type = kNumber,
     .fallback = "5",
     .minimum = 1e-3,
     .use = kEngine,
     .meaning = "Seconds between looks for ended sessions."},
    {.name = "resume_replay_ttl_s",
     .type = kNumber,
     .fallback = "60",
     .minimum = 1e-3,
     .use = kEngine,
     .meaning = "Seconds that output is kept for a client that comes back."},
    {.name = "resume_replay_max_bytes_per_session",
     .type = kSize,
     .fallback = "8MiB",
     .minimum = 1,
     .use = kEngine,
     .meaning = "How much of it."},
    {.name = "max_pending_input_bytes_per_session",
     .type = kSize,
     .fallback = "16MiB",
     .minimum = 1,
     .use = kEngine,
     .meaning = "Input that may wait."},
    {.name = "max_pending_turns_per_session",
     .type = kInteger,
     .fallback = "4",
     .minimum = 1,
     .use = kEngine,
     .meaning = "Turns that may wait."},
    {.name = "max_sessions",
     .type = kInteger,
     .fallback = "1",
     .minimum = 1,
     .use = kEngine,
     .meaning = "Sessions at once."},
    {.name = "completed_append_cache_size",
     .type = kInteger,
     .fallback = "256",
     .minimum = 1,
     .use = kEngine,
     .meaning = "Answers that are remembered."},
    {.name = "server_vad_model_path", .type = kText, .use = kEngine, .meaning = "Voice detection model."},
    {.name = "warmup_frames",
     .type = kInteger,
     .fallback = "0",
     .minimum = 0,
     .use = kEngine,
     .meaning = "Frames for warming up."},
};

constexpr ConnectorClass kConnectorClasses[] = {
    {"MoriTransferEngineConnector", true},
    {"SharedMemoryConnector", false},
    {"MooncakeStoreConnector", false},
    {"MooncakeTransferEngineConnector", false},
    {"MooncakeConnector", false},
    {"YuanrongConnector", false},
    {"YuanrongTransferEngineConnector", false},
};

constexpr std::string_view kPlatforms[] = {"npu", "rocm", "xpu", "cuda"};

}  // namespace

KeySpecs top_level_keys() {
  return kTopLevel;
}
KeySpecs stage_keys() {
  return kStage;
}
KeySpecs runtime_keys() {
  return kRuntime;
}
KeySpecs edge_keys() {
  return kEdge;
}
KeySpecs connector_keys() {
  return kConnector;
}
KeySpecs duplex_session_keys() {
  return kDuplexSession;
}
std::span<const ConnectorClass> connector_classes() {
  return kConnectorClasses;
}
std::span<const std::string_view> platform_names() {
  return kPlatforms;
}

const KeySpec* find_key(KeySpecs keys, std::string_view name) {
  auto at = std::find_if(keys.begin(), keys.end(), [&](const KeySpec& key) { return key.name == name; });
  return at == keys.end() ? nullptr : &*at;
}

std::vector<std::string_view> key_names(KeySpecs keys) {
  std::vector<std::string_view> names;
  for (const KeySpec& key : keys) names.push_back(key.name);
  return names;
}

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> out;
  while (!choices.empty()) {
    std::size_t bar = choices.find('|');
    out.push_back(choices.substr(0, bar));
    choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
  }
  return out;
}

namespace {

void read_entry(const Entry& entry, const KeySpec& key, const std::string& path, Diagnostics& diagnostics,
                Values& values) {
  // The engine's own defaults are written as null.
  if (key.use == Use::engine && entry.value.kind == Node::Kind::null) return;
  if (auto value = read_value(key, entry.value, path, diagnostics)) values.put(key.name, *value);
}

void put_defaults(KeySpecs keys, Values& values) {
  for (const KeySpec& key : keys) {
    if (key.fallback.empty()) continue;
    Diagnostics none;
    auto value = read_value(key, scalar_node(key.fallback, {}), "", none);
    STAGEWIRE_CHECK(value.has_value(), "a default of the schema table is not a value of its own type");
    value->node = nullptr;
    values.put(key.name, *value);
  }
}

}  // namespace

Values read_map(const Node& map, KeySpecs keys, const std::string& path, Diagnostics& diagnostics,
                Unknown unknown) {
  Values values;
  put_defaults(keys, values);
  for (const Entry& entry : map.entries) {
    std::string entry_path = join_path(path, entry.key);
    if (const KeySpec* key = find_key(keys, entry.key)) {
      read_entry(entry, *key, entry_path, diagnostics, values);
    } else if (unknown == Unknown::refuse) {
      diagnostics.error(entry.place, entry_path, "unknown key", suggestion(entry.key, key_names(keys)));
    }
  }
  return values;
}

}  // namespace stagewire::deploy
