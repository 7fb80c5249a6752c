// Deploy YAML: a file becomes a plan (stages, edges, connectors with every value filled in), or a list of all
// that is wrong with it. docs/config.md is generated from the same table of keys that parses them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/connector.hpp"
#include "stagewire/result.hpp"

namespace stagewire {

/// One thing that is wrong, or worth knowing, in a file.
struct Diagnostic {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  std::string file;
  int line = 0;  ///< from 1; 0 = no place in a file (an override, say)
  int column = 0;
  std::string path;  ///< "connectors.mori.extra.zmq_port"
  std::string message;
  /// "deploy/x.yaml:12:7: error: connectors.mori.extra.zmq_prot: unknown key; did you mean zmq_port?"
  STAGEWIRE_API std::string to_string() const;
};

/// One directed edge between two stages, with what each end's connector is made of.
struct EdgePlan {
  int from_stage = 0;
  int to_stage = 0;
  std::string connector;   ///< name under `connectors`, or "inline"
  std::string class_name;  ///< "MoriTransferEngineConnector"
  std::string host;        ///< where the sender binds
  int port = 0;            ///< 0 = any, found through the pipeline
  std::string route;       ///< what backend_type allows here, with the reason
};

struct StagePlan {
  int stage_id = 0;
  std::string devices;
  int num_replicas = 1;  ///< more than one only without edges
  bool async_chunk = true;
  std::map<std::string, std::string> env;
  /// nullopt: the stage has no edge. Its role, ports and sender are derived from the edges. zmq_port 0 = any
  /// free one, also for a stage that only receives. sender_host "auto" = this host; sender_zmq_port 0 with an
  /// edge in = the pipeline has to find it (update_sender_info).
  std::optional<ConnectorConfig> connector;
  /// Chunk path parameters of the connector's extra, as integers (codec_chunk_frames,
  /// codec_left_context_frames, initial_codec_chunk_frames).
  std::map<std::string, std::int64_t> chunk_options;
  /// Stage keys that are not ours to interpret, as YAML text: kept for the engine, and listed.
  std::map<std::string, std::string> engine_options;
};

struct DeployPlan {
  std::string file;
  /// All that were read, as canonical paths: the file and those that it is based on, also by an override.
  std::vector<std::string> files_read;
  bool async_chunk = true;
  std::uint64_t active_stream_window = 0;  ///< see ChunkAdapterOptions; 0 = no bound
  std::string pipeline;                    ///< "" or the registry key of a structural variant
  std::vector<StagePlan> stages;           ///< by stage_id
  std::vector<EdgePlan> edges;
  std::map<std::string, std::string> engine_options;  ///< pipeline-wide, kept
  std::vector<Diagnostic> notes;                      ///< warnings and notes
};

struct DeployOptions {
  std::vector<std::string> overrides;  ///< "path=value", the value in YAML
  std::string platform;                ///< "" = none; else the name of a section under `platforms`
  /// Backends that this build and machine have, with the reason for those that they have not. Empty = probe.
  std::vector<BackendReport> backends;
};

/// Either a plan without errors, or every error found.
struct DeployResult {
  std::optional<DeployPlan> plan;
  std::vector<Diagnostic> diagnostics;  ///< errors first, in file order
};

/// Reads the file and what it bases itself on. Blocks on the file system only.
STAGEWIRE_API DeployResult load_deploy(const std::string& file, const DeployOptions& options = {});
/// The same for text; `name` stands for the file in messages, base_config is relative to the working
/// directory.
STAGEWIRE_API DeployResult parse_deploy(std::string_view text, const std::string& name,
                                        const DeployOptions& options = {});

/// The reference page of all keys, Markdown (docs/config.md holds its output).
STAGEWIRE_API std::string deploy_reference();

/// What to say after an unknown word: "; did you mean zmq_port?", or "; known: a, b, c" when none is near.
STAGEWIRE_API std::string suggestion(std::string_view word, const std::vector<std::string_view>& known);

/// "512MiB", "512MB", "0.5GiB" or plain bytes. `invalid_argument` names what was expected.
STAGEWIRE_API Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace stagewire
