#include "cli/plan_text.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/shown.hpp"

namespace stagewire::cli {
namespace {

using nlohmann::json;

std::string port_text(int port) {
  return port == 0 ? "any port" : "port " + std::to_string(port);
}

void print_stage(std::ostringstream& out, const StagePlan& stage, const DeployPlan& plan) {
  out << "  stage " << stage.stage_id;
  if (!stage.devices.empty()) out << ", devices " << shown(stage.devices);
  if (stage.num_replicas != 1) out << ", " << stage.num_replicas << " replicas";
  if (stage.async_chunk != plan.async_chunk) out << ", without chunks";
  if (stage.connector) {
    const ConnectorConfig& config = *stage.connector;
    out << ": " << to_string(config.role);
    if (config.role != Role::receiver) out << ", binds " << config.host << " " << port_text(config.zmq_port);
    if (config.role != Role::sender) {
      out << ", upstream at " << config.sender_host << " "
          << (config.sender_zmq_port == 0 ? "(port through the pipeline)"
                                          : port_text(config.sender_zmq_port));
    }
    out << "\n    pool of " << config.memory_pool_size << " bytes on " << config.memory_pool_device;
    for (const auto& [name, value] : stage.chunk_options) out << ", " << name << " " << value;
  } else {
    out << ": no edge";
  }
  out << "\n";
  for (const auto& [name, value] : stage.env) out << "    env " << name << "=" << shown(value) << "\n";
  for (const auto& [name, value] : stage.engine_options)
    out << "    engine " << name << ": " << value << "\n";
}

json connector_json(const ConnectorConfig& config) {
  static constexpr const char* kWaits[] = {"block", "spin", "adaptive"};
  return {{"role", to_string(config.role)},
          {"host", config.host},
          {"zmq_port", config.zmq_port},
          {"backend_type", config.backend_type},
          {"backend_settings", config.backend_settings},
          {"memory_pool_size", config.memory_pool_size},
          {"memory_pool_device", config.memory_pool_device},
          {"sender_host", config.sender_host},
          {"sender_zmq_port", config.sender_zmq_port},
          {"buffer_ttl_s", config.buffer_ttl_s},
          {"lease_share", config.lease_share},
          {"route", config.route},
          {"wait", kWaits[static_cast<std::size_t>(config.wait)]},
          {"fault_spec", config.fault_spec}};
}

json stage_json(const StagePlan& stage) {
  return {{"stage_id", stage.stage_id},
          {"devices", stage.devices},
          {"num_replicas", stage.num_replicas},
          {"async_chunk", stage.async_chunk},
          {"env", stage.env},
          {"connector", stage.connector ? connector_json(*stage.connector) : json()},
          {"chunk_options", stage.chunk_options},
          {"engine_options", stage.engine_options}};
}

json edge_json(const EdgePlan& edge) {
  return {{"from", edge.from_stage},  {"to", edge.to_stage}, {"connector", edge.connector},
          {"class", edge.class_name}, {"host", edge.host},   {"port", edge.port},
          {"route", edge.route}};
}

json diagnostics_json(const std::vector<Diagnostic>& diagnostics) {
  static constexpr const char* kSeverities[] = {"error", "warning", "note"};
  json out = json::array();
  for (const Diagnostic& one : diagnostics) {
    out.push_back({{"severity", kSeverities[static_cast<std::size_t>(one.severity)]},
                   {"file", one.file},
                   {"line", one.line},
                   {"column", one.column},
                   {"path", one.path},
                   {"message", one.message}});
  }
  return out;
}

std::string printed(const json& root) {
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string plan_text(const DeployPlan& plan) {
  std::ostringstream out;
  out << plan.file << ": " << plan.stages.size() << " stages, " << plan.edges.size() << " edges, "
      << (plan.async_chunk ? "in chunks" : "in whole results");
  if (plan.active_stream_window > 0)
    out << ", a stage receives " << plan.active_stream_window << " requests at once";
  out << "\n";
  if (!plan.pipeline.empty()) out << "  pipeline " << shown(plan.pipeline) << "\n";
  for (const auto& [name, value] : plan.engine_options) out << "  engine " << name << ": " << value << "\n";
  out << "stages\n";
  for (const StagePlan& stage : plan.stages) print_stage(out, stage, plan);
  out << "edges\n";
  for (const EdgePlan& edge : plan.edges) {
    out << "  " << edge.from_stage << " -> " << edge.to_stage << ": " << edge.connector << " ("
        << edge.class_name << "), " << edge.host << " " << port_text(edge.port) << "\n    route "
        << edge.route << "\n";
  }
  if (!plan.notes.empty()) out << "notes\n";
  for (const Diagnostic& one : plan.notes) out << "  " << one.to_string() << "\n";
  return std::move(out).str();
}

std::string plan_json(const DeployPlan& plan) {
  json stages = json::array();
  for (const StagePlan& stage : plan.stages) stages.push_back(stage_json(stage));
  json edges = json::array();
  for (const EdgePlan& edge : plan.edges) edges.push_back(edge_json(edge));
  return printed({{"ok", true},
                  {"file", plan.file},
                  {"async_chunk", plan.async_chunk},
                  {"active_stream_window", plan.active_stream_window},
                  {"pipeline", plan.pipeline},
                  {"stages", stages},
                  {"edges", edges},
                  {"engine_options", plan.engine_options},
                  {"diagnostics", diagnostics_json(plan.notes)}});
}

std::string failure_json(const DeployResult& result) {
  return printed({{"ok", false}, {"diagnostics", diagnostics_json(result.diagnostics)}});
}

}  // namespace stagewire::cli
