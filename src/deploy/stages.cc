#include "deploy/stages.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "deploy/merge.hpp"
#include "deploy/nearest.hpp"
#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

constexpr std::size_t kLongestVariable = 128 * 1024;  // bytes; MAX_ARG_STRLEN of the kernel

bool is_variable_name(std::string_view name) {
  auto good = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), good);
}

/// One stage of the list.
class StageReader {
 public:
  StageReader(const Node& node, std::string path, Diagnostics& diagnostics)
      : node_(node), path_(std::move(path)), diagnostics_(diagnostics) {}

  std::optional<StageEntry> read() {
    if (!node_.is_map()) {
      diagnostics_.error(node_.place, path_, "expected a map with a stage_id, found ", describe(node_));
      return std::nullopt;
    }
    Values values = read_map(node_, stage_keys(), path_, diagnostics_, Unknown::keep);
    if (node_.find("stage_id") == nullptr) {
      diagnostics_.error(node_.place, path_, "has no stage_id: write stage_id: and a number from 0");
    }
    entry_.node = &node_;
    entry_.path = path_;
    const Value* runtime = values.find("runtime");
    if (runtime != nullptr) read_runtime(*runtime->node, values);
    read_own_keys(values);
    keep_engine_options();
    if (!values.given("stage_id")) return std::nullopt;
    return std::move(entry_);
  }

 private:
  /// Takes from the older place what the stage itself has not; the rest of it is the engine's.
  void read_runtime(const Node& runtime, Values& values) {
    std::string path = join_path(path_, "runtime");
    Values inner = read_map(runtime, runtime_keys(), path, diagnostics_, Unknown::keep);
    for (const Entry& entry : runtime.entries) {
      if (find_key(runtime_keys(), entry.key) == nullptr) {
        keep(entry.key, entry.value, join_path(path, entry.key));
      } else if (node_.find(entry.key) != nullptr) {
        diagnostics_.error(entry.place, join_path(path, entry.key),
                           "stands in the stage as well: keep that one");
      } else if (inner.given(entry.key)) {
        values.put(entry.key, inner[entry.key]);
      }
    }
  }

  void read_own_keys(const Values& values) {
    if (const Value* id = values.find("stage_id")) entry_.plan.stage_id = static_cast<int>(id->integer);
    if (const Value* devices = values.find("devices")) entry_.plan.devices = devices->text;
    entry_.plan.num_replicas = static_cast<int>(values["num_replicas"].integer);
    entry_.plan.async_chunk = values["async_chunk"].boolean;
    if (const Value* size = values.find("tensor_parallel_size")) {
      entry_.tensor_parallel_size = static_cast<int>(size->integer);
    }
    if (const Value* env = values.find("env")) read_env(*env->node);
  }

  void read_env(const Node& env) {
    static constexpr KeySpec kVariable = row("variable", ValueType::token, "");
    for (const Entry& entry : env.entries) {
      std::string path = join_path(join_path(path_, "env"), entry.key);
      if (!is_variable_name(entry.key)) {
        diagnostics_.error(entry.place, path, "is no name of an environment variable (letters, digits, _)");
      } else if (auto value = read_value(kVariable, entry.value, path, diagnostics_)) {
        const std::size_t size = entry.key.size() + value->text.size() + 2;  // NAME=VALUE and its end
        if (size > kLongestVariable) {
          diagnostics_.error(entry.place, path, "takes ", size, " bytes in the environment of the stage, ",
                             "Linux takes at most ", kLongestVariable, " for one variable: make it shorter");
        }
        entry_.plan.env[entry.key] = value->text;
      }
    }
  }

  void keep_engine_options() {
    for (const Entry& entry : node_.entries) {
      const KeySpec* key = find_key(stage_keys(), entry.key);
      std::string path = join_path(path_, entry.key);
      if (entry.key == "engine_args" || entry.key == "engine_extras") {
        keep_block(entry.value, path, entry.key == "engine_extras");
      } else if (key == nullptr || key->use == Use::engine) {
        keep(entry.key, entry.value, path);
        if (key == nullptr) warn_if_nearly_known(entry, path);
      }
    }
    note_unknown();
  }

  void keep_block(const Node& block, const std::string& path, bool is_extras) {
    for (const Entry& entry : block.entries) {
      std::string entry_path = join_path(path, entry.key);
      if (is_extras &&
          (entry.key == "use_v2_model_runner" || entry.key == "supports_native_mrv2_data_plane")) {
        diagnostics_.error(entry.place, entry_path, "must not be set here: use model_runner");
        continue;
      }
      const KeySpec* key = find_key(stage_keys(), entry.key);
      if (key != nullptr && key->use == Use::stagewire) {
        diagnostics_.error(entry.place, entry_path, "belongs into the stage itself");
        continue;
      }
      if (entry.key == "tensor_parallel_size" && key != nullptr) {
        if (auto size = read_value(*key, entry.value, entry_path, diagnostics_)) {
          entry_.tensor_parallel_size = static_cast<int>(size->integer);
        }
      }
      keep(entry.key, entry.value, entry_path);
    }
  }

  void keep(const std::string& key, const Node& value, const std::string& path) {
    auto [at, is_new] = entry_.plan.engine_options.emplace(key, to_yaml(value));
    if (!is_new)
      diagnostics_.error(value.place, path, "the engine option ", key, " is set twice in this stage");
    if (find_key(stage_keys(), key) != nullptr) return;
    if (!unknown_place_.file) unknown_place_ = value.place;
    unknown_ += (unknown_.empty() ? "" : ", ") + key;
  }

  void warn_if_nearly_known(const Entry& entry, const std::string& path) {
    std::string_view near = nearest(entry.key, key_names(stage_keys()));
    if (near.empty() || edit_distance(near, entry.key) > 2) return;
    diagnostics_.warning(entry.place, path, "unknown key, kept as an engine option; did you mean ", near,
                         "?");
  }

  void note_unknown() {
    if (!unknown_.empty()) diagnostics_.note(unknown_place_, path_, "kept for the engine: ", unknown_);
  }

  const Node& node_;
  std::string path_;
  Diagnostics& diagnostics_;
  StageEntry entry_;
  std::string unknown_;  ///< names of the keys that only the engine knows
  Place unknown_place_;
};

}  // namespace

std::vector<StageEntry> read_stages(const Node* stages, Diagnostics& diagnostics) {
  std::vector<StageEntry> out;
  if (stages == nullptr || !stages->is_list()) return out;  // another kind was reported with the top level
  check_unique_stages(*stages, "stages", diagnostics);
  for (std::size_t i = 0; i < stages->items.size(); ++i) {
    const Node& node = stages->items[i];
    auto entry = StageReader(node, item_path("stages", i, node), diagnostics).read();
    if (!entry) continue;
    auto same = [&](const StageEntry& other) { return other.plan.stage_id == entry->plan.stage_id; };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(*entry));
  }
  std::sort(out.begin(), out.end(),
            [](const StageEntry& a, const StageEntry& b) { return a.plan.stage_id < b.plan.stage_id; });
  return out;
}

}  // namespace stagewire::deploy
