// The one table of keys: it drives the reading of values, the errors, and the reference page.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/values.hpp"
#include "stagewire/connector.hpp"

namespace stagewire::deploy {

/// Who gave the key its name and meaning.
enum class Origin { vllm_omni, stagewire };

/// What becomes of the value.
enum class Use {
  stagewire,  ///< read by Stagewire
  engine,     ///< checked here if it has a type, kept for the engine
};

struct KeySpec {
  std::string_view name;
  ValueType type = ValueType::any;
  std::string_view fallback;                                  ///< the default, in YAML; "" = none
  double minimum = -std::numeric_limits<double>::infinity();  ///< of an integer, number or size
  double maximum = std::numeric_limits<double>::infinity();
  std::string_view choices;  ///< "auto|shm|rdma", for ValueType::choice
  Origin origin = Origin::vllm_omni;
  Use use = Use::stagewire;
  std::string_view meaning;  ///< one sentence

  constexpr KeySpec by_default(std::string_view yaml) const {
    KeySpec made = *this;
    made.fallback = yaml;
    return made;
  }
  constexpr KeySpec between(double low, double high) const {
    KeySpec made = *this;
    made.minimum = low;
    made.maximum = high;
    return made;
  }
  constexpr KeySpec at_least(double low) const { return between(low, maximum); }
  constexpr KeySpec one_of(std::string_view words) const {
    KeySpec made = *this;
    made.choices = words;
    return made;
  }
  constexpr KeySpec ours() const {
    KeySpec made = *this;
    made.origin = Origin::stagewire;
    return made;
  }
  constexpr KeySpec for_engine() const {
    KeySpec made = *this;
    made.use = Use::engine;
    return made;
  }
};

/// A row of the table: row("num_replicas", ValueType::integer, "...").by_default("1").between(1, 1024).
constexpr KeySpec row(std::string_view name, ValueType type, std::string_view meaning) {
  KeySpec made;
  made.name = name;
  made.type = type;
  made.meaning = meaning;
  return made;
}

using KeySpecs = std::span<const KeySpec>;

KeySpecs top_level_keys();
KeySpecs stage_keys();
KeySpecs runtime_keys();
KeySpecs edge_keys();
KeySpecs connector_keys();
KeySpecs extra_keys();
KeySpecs duplex_session_keys();

/// A bound of the key's range as it is printed: "65535", "64 KiB".
std::string bound_text(const KeySpec& key, double bound);

const KeySpec* find_key(KeySpecs keys, std::string_view name);
std::vector<std::string_view> key_names(KeySpecs keys);
std::vector<std::string_view> split_choices(std::string_view choices);

enum class Unknown { refuse, keep };
/// Reads a map by its keys: reports wrong values, and unknown keys if they are refused.
Values read_map(const Node& map, KeySpecs keys, const std::string& path, Diagnostics& diagnostics,
                Unknown unknown = Unknown::refuse);

/// The keys of `extra` that the pipeline sets by itself; naming one in a file is an error.
bool is_injected_key(std::string_view name);

/// Puts the value of an extra key into its field; false when the key has none there.
bool store(ConnectorConfig& config, std::string_view name, const Value& value);
/// Keys of `extra` that go into StagePlan::chunk_options.
bool is_chunk_option(std::string_view name);
/// Keys that may differ between the two connectors of a stage in the middle: they belong to one direction.
bool is_directional(std::string_view name);

struct ConnectorClass {
  std::string_view name;
  bool served = false;  ///< Stagewire has it
};
std::span<const ConnectorClass> connector_classes();

/// "npu", "rocm", "xpu", "cuda"
std::span<const std::string_view> platform_names();

}  // namespace stagewire::deploy
