#include "deploy/schema.hpp"

#include <algorithm>

#include "base/check.hpp"

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
constexpr auto kAny = ValueType::any;

constexpr double kMaxCount = 1'000'000;

constexpr KeySpec kTopLevel[] = {
    row("base_config", kText,
        "A file that this one is laid over, relative to this file; it may have a base of its own."),
    row("pipeline", kText,
        "Registry key of a structural variant of the pipeline; `stagewire serve` runs `speech`, "
        "`qwen3_omni_moe` and `qwen2_5_omni`."),
    row("async_chunk", kBoolean,
        "Stages hand over chunks as they are made, not whole results; a single stage has nothing to hand "
        "over and runs with false.")
        .by_default("true"),
    row("connectors", kMap,
        "Connectors by name, for `input_connectors`, `output_connectors` and `edges` to refer to."),
    row("edges", kList, "Edges between stages, where the stages do not name them themselves."),
    row("stages", kList, "The stages, in any order."),
    row("platforms", kMap,
        "Sections `npu`, `rocm`, `xpu` and `cuda`; the one that is chosen is laid over the rest."),
    row("session_mode", kChoice, "Whether a session takes turns or both sides speak at once.")
        .by_default("turn")
        .one_of("turn|duplex")
        .for_engine(),
    row("model_runner", kChoice, "Model runner generation.").by_default("v1").one_of("v1|v2").for_engine(),
    row("active_stream_window", kInteger,
        "How many requests a stage receives at once, first come first served; 0 = no bound.")
        .by_default("0")
        .between(0, kMaxCount),
    row("duplex_session", kMap, "Limits of duplex sessions, see below.").for_engine(),
    row("trust_remote_code", kBoolean, "Pipeline-wide engine argument.").for_engine(),
    row("distributed_executor_backend", kAny, "Pipeline-wide engine argument.").for_engine(),
    row("dtype", kAny, "Pipeline-wide engine argument.").for_engine(),
    row("quantization", kAny, "Pipeline-wide engine argument.").for_engine(),
    row("enable_prefix_caching", kBoolean, "Pipeline-wide engine argument.").for_engine(),
    row("enable_chunked_prefill", kBoolean, "Pipeline-wide engine argument.").for_engine(),
    row("data_parallel_size", kInteger, "Pipeline-wide engine argument.").between(1, kMaxCount).for_engine(),
    row("pipeline_parallel_size", kInteger, "Pipeline-wide engine argument.")
        .between(1, kMaxCount)
        .for_engine(),
    row("custom_voice_dir", kAny, "Pipeline-wide engine argument.").for_engine(),
};

constexpr KeySpec kStage[] = {
    row("stage_id", kInteger, "The stage's number, unique in the file; required.").between(0, 65535),
    row("devices", kToken, "Devices that the stage sees, such as `0` or `0,1`."),
    row("num_replicas", kInteger, "Processes of this stage; more than one only for a stage without edges.")
        .by_default("1")
        .between(1, 1024),
    row("env", kMap, "Environment variables of the stage's process."),
    row("async_chunk", kBoolean, "`false`: this stage opts out of chunks; both ends of an edge must agree.")
        .by_default("true"),
    row("input_connectors", kMap,
        "`from_stage_N: connector`, by name or written out as `{name, extra}`; one at most."),
    row("output_connectors", kMap, "`to_stage_N: connector`, by name or written out as `{name, extra}`."),
    row("runtime", kMap, "Older place for `devices`, `num_replicas` and `env`."),
    row("engine_args", kMap,
        "Older place for engine options; its keys are kept as if they stood in the stage.")
        .for_engine(),
    row("engine_extras", kMap, "More engine options; its keys are kept as if they stood in the stage.")
        .for_engine(),
    row("default_sampling_params", kMap, "Sampling defaults of the stage.").for_engine(),
    row("default_pooling_params", kMap, "Pooling defaults of the stage.").for_engine(),
    row("subtalker_sampling_params", kMap, "Sampling defaults inside a talker.").for_engine(),
    row("silence_ban_frames", kAny, "Engine option.").for_engine(),
    row("model_runner", kChoice, "Model runner generation of this stage.").one_of("v1|v2").for_engine(),
    row("tensor_parallel_size", kInteger, "Ranks of the stage; a stage with an edge has one.")
        .between(1, kMaxCount)
        .for_engine(),
    row("enable_expert_parallel", kBoolean, "Engine option.").for_engine(),
    row("gpu_memory_utilization", kNumber, "Share of the device's memory that the engine takes.")
        .between(0, 1)
        .for_engine(),
    row("max_num_seqs", kInteger, "Engine option.").at_least(1).for_engine(),
    row("max_num_batched_tokens", kInteger, "Engine option.").at_least(1).for_engine(),
    row("max_model_len", kAny, "Engine option.").for_engine(),
    row("enforce_eager", kBoolean, "Engine option.").for_engine(),
    row("async_scheduling", kBoolean, "Engine option.").for_engine(),
    row("disable_hybrid_kv_cache_manager", kBoolean, "Engine option.").for_engine(),
    row("mm_processor_cache_gb", kNumber, "Engine option.").at_least(0).for_engine(),
    row("mamba_ssm_cache_dtype", kAny, "Engine option.").for_engine(),
    row("compilation_config", kAny, "Engine option.").for_engine(),
    row("profiler_config", kAny, "Engine option.").for_engine(),
    row("skip_mm_profiling", kBoolean, "Engine option.").for_engine(),
    row("enable_flashinfer_autotune", kBoolean, "Engine option.").for_engine(),
    row("config_format", kAny, "Engine option.").for_engine(),
    row("load_format", kAny, "Engine option.").for_engine(),
    row("tokenizer_mode", kAny, "Engine option.").for_engine(),
};

constexpr KeySpec kRuntime[] = {
    row("devices", kToken, "As in the stage."),
    row("num_replicas", kInteger, "As in the stage.").by_default("1").between(1, 1024),
    row("env", kMap, "As in the stage."),
};

constexpr KeySpec kEdge[] = {
    row("from", kInteger, "Stage that sends; required.").between(0, 65535),
    row("to", kInteger, "Stage that receives; required.").between(0, 65535),
    row("connector", kAny,
        "The connector, by name or written out as `{name, extra}`, unless the stages name it.")
        .ours(),
    row("window_size", kInteger, "Accepted, without effect.")
        .by_default("-1")
        .between(-1, kMaxCount)
        .for_engine(),
    row("max_inflight", kInteger, "Accepted, without effect.")
        .by_default("1")
        .between(1, kMaxCount)
        .for_engine(),
};

constexpr KeySpec kConnector[] = {
    row("name", kText, "The connector's class: `MoriTransferEngineConnector`; required."),
    row("extra", kMap, "Its configuration, see below."),
};

constexpr KeySpec kDuplexSession[] = {
    row("idle_ttl_s", kNumber, "Seconds after which an idle session ends.")
        .by_default("300")
        .at_least(1e-3)
        .for_engine(),
    row("disconnect_grace_s", kNumber, "Seconds in which a client may come back.")
        .by_default("30")
        .at_least(1e-3)
        .for_engine(),
    row("reaper_interval_s", kNumber, "Seconds between looks for ended sessions.")
        .by_default("5")
        .at_least(1e-3)
        .for_engine(),
    row("resume_replay_ttl_s", kNumber, "Seconds that output is kept for a client that comes back.")
        .by_default("60")
        .at_least(1e-3)
        .for_engine(),
    row("resume_replay_max_bytes_per_session", kSize, "How much of it.")
        .by_default("8MiB")
        .at_least(1)
        .for_engine(),
    row("max_pending_input_bytes_per_session", kSize, "Input that may wait.")
        .by_default("16MiB")
        .at_least(1)
        .for_engine(),
    row("max_pending_turns_per_session", kInteger, "Turns that may wait.")
        .by_default("4")
        .at_least(1)
        .for_engine(),
    row("max_sessions", kInteger, "Sessions at once.").by_default("1").at_least(1).for_engine(),
    row("completed_append_cache_size", kInteger, "Answers that are remembered.")
        .by_default("256")
        .at_least(1)
        .for_engine(),
    row("server_vad_model_path", kText, "Voice detection model.").for_engine(),
    row("warmup_frames", kInteger, "Frames for warming up.").by_default("0").at_least(0).for_engine(),
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
