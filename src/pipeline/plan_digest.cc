#include "pipeline/plan_digest.hpp"

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "base/text.hpp"

namespace stagewire::pipeline {
namespace {

/// FNV-1a: a difference by mistake shows; nobody is kept from making one on purpose, who has the secret.
std::string digest(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  return hex.data();
}

std::string text_of(const StagePlan& stage) {
  std::string text = base::text("async_chunk ", stage.async_chunk, '\n', "num_replicas ", stage.num_replicas);
  for (const auto& [name, value] : stage.chunk_options) text += base::text('\n', name, ' ', value);
  if (stage.connector) {
    const ConnectorConfig& connector = *stage.connector;
    text += base::text('\n', to_string(connector.role), '\n', connector.backend_type, '\n', connector.route,
                       '\n', "secret ", !connector.secret_key.empty());
  }
  return text;
}

}  // namespace

std::map<std::string, std::string> plan_digest(const DeployPlan& plan) {
  std::map<std::string, std::string> result;
  for (const StagePlan& stage : plan.stages)
    result[base::text("stage ", stage.stage_id)] = digest(text_of(stage));
  std::string edges = base::text("async_chunk ", plan.async_chunk);
  for (const EdgePlan& edge : plan.edges)
    edges += base::text('\n', edge.from_stage, ' ', edge.to_stage, ' ', edge.class_name);
  result["the edges"] = digest(edges);
  return result;
}

Result<std::string> trace_digest(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return base::error(ErrorCode::not_found, "cannot read the trace ", file);
  return digest(text);
}

Result<std::map<std::string, std::string>> replay_terms(const PipelineOptions& options) {
  auto trace = trace_digest(options.replay.trace);
  if (!trace.ok()) return trace.error();
  std::map<std::string, std::string> terms;
  terms["--requests"] = std::to_string(options.replay.requests);
  terms["--concurrency"] = std::to_string(options.replay.concurrency);
  terms["--prompt-tokens"] = std::to_string(options.replay.prompt_tokens);
  terms["--output-tokens"] = std::to_string(options.replay.output_tokens);
  terms["--seed"] = std::to_string(options.replay.seed);
  terms["--timeout"] = base::text(options.timeout.count(), " ms");
  terms["--rate"] = options.rate == Rate::max ? "max" : base::text(options.speed, " times real");
  terms["--trace"] = trace->empty() ? "none" : base::text("a file with the digest ", *trace);
  return terms;
}

std::string difference(const std::map<std::string, std::string>& master,
                       const std::map<std::string, std::string>& node) {
  std::string text;
  for (const auto& [name, value] : node) {
    const auto found = master.find(name);
    if (found != master.end() && found->second == value) continue;
    text += base::text(text.empty() ? "" : ", ", name, " is ", value, " there and ",
                       found == master.end() ? "not known" : found->second, " at the master");
  }
  return text;
}

}  // namespace stagewire::pipeline
