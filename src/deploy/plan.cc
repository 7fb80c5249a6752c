#include "deploy/plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "deploy/connectors.hpp"
#include "deploy/edges.hpp"
#include "deploy/ports.hpp"
#include "deploy/routes.hpp"
#include "deploy/schema.hpp"
#include "deploy/stages.hpp"

namespace stagewire::deploy {
namespace {

class Planner {
 public:
  Planner(const Node& tree, const std::vector<BackendReport>& backends, Diagnostics& diagnostics)
      : tree_(tree),
        backends_(backends),
        diagnostics_(diagnostics),
        top_(read_map(tree, top_level_keys(), "", diagnostics)),
        connectors_(tree.find("connectors"), diagnostics),
        stages_(read_stages(tree.find("stages"), diagnostics)) {}

  DeployPlan run(const std::string& file) {
    plan_.file = file;
    if (const Value* pipeline = top_.find("pipeline")) plan_.pipeline = pipeline->text;
    keep_engine_options();
    plan_.active_stream_window = static_cast<std::uint64_t>(top_["active_stream_window"].integer);
    set_async_chunk();
    edges_ = read_edges(stage_nodes(), tree_.find("edges"), connectors_, diagnostics_);
    for (const Edge& edge : edges_) plan_edge(edge);
    note_unused_connectors();
    for (StageEntry& stage : stages_) {
      plan_connector(stage);
      plan_.stages.push_back(std::move(stage.plan));
    }
    check_port_collisions();
    return std::move(plan_);
  }

 private:
  void keep_engine_options() {
    for (const Entry& entry : tree_.entries) {
      const KeySpec* key = find_key(top_level_keys(), entry.key);
      if (key == nullptr || key->use != Use::engine) continue;
      plan_.engine_options[entry.key] = to_yaml(entry.value);
      if (entry.key == "duplex_session" && entry.value.is_map()) {
        read_map(entry.value, duplex_session_keys(), entry.key, diagnostics_);
      }
    }
  }

  void set_async_chunk() {
    plan_.async_chunk = top_["async_chunk"].boolean;
    if (stages_.size() == 1 && plan_.async_chunk) {
      plan_.async_chunk = false;
      if (top_.given("async_chunk")) {
        diagnostics_.note(top_["async_chunk"].node->place, "async_chunk", "is false with a single stage");
      }
    }
    for (StageEntry& stage : stages_) stage.plan.async_chunk = stage.plan.async_chunk && plan_.async_chunk;
  }

  std::vector<StageNode> stage_nodes() const {
    std::vector<StageNode> out;
    for (const StageEntry& stage : stages_) out.push_back({stage.plan.stage_id, stage.node, stage.path});
    return out;
  }

  const StageEntry* find_stage(int stage_id) const {
    auto at = std::find_if(stages_.begin(), stages_.end(),
                           [&](const StageEntry& stage) { return stage.plan.stage_id == stage_id; });
    return at == stages_.end() ? nullptr : &*at;
  }

  void plan_edge(const Edge& edge) {
    check_chunking_agrees(edge);
    if (edge.connector == nullptr) return;
    const ConnectorSpec& spec = *edge.connector;
    EdgePlan out;
    out.from_stage = edge.from;
    out.to_stage = edge.to;
    out.connector = spec.name;
    out.class_name = spec.class_name;
    out.host = spec.config.host;
    out.route = choose_route(spec, backends_, diagnostics_);
    auto port = port_by_rule(spec.extra["port_rule"].text, spec.config.zmq_port, edge.from);
    if (port) {
      out.port = *port;
    } else {
      diagnostics_.error(spec.place_of("zmq_port"), spec.path_of("zmq_port"), port.error().message());
    }
    plan_.edges.push_back(std::move(out));
  }

  void check_chunking_agrees(const Edge& edge) {
    const StageEntry* from = find_stage(edge.from);
    const StageEntry* to = find_stage(edge.to);
    if (from == nullptr || to == nullptr || from->plan.async_chunk == to->plan.async_chunk) return;
    const StageEntry& differs = from->plan.async_chunk ? *to : *from;
    diagnostics_.error(differs.node->place, join_path(differs.path, "async_chunk"), "the ends of edge ",
                       edge.from, " -> ", edge.to, " disagree: both hand over chunks, or neither");
  }

  void note_unused_connectors() {
    std::set<const ConnectorSpec*> used;
    for (const Edge& edge : edges_) {
      for (const EdgeClaim& claim : edge.claims) used.insert(claim.connector.get());
    }
    for (const auto& [name, spec] : connectors_.by_name()) {
      if (used.count(spec.get()) == 0)
        diagnostics_.note(spec->place, spec->path, "no edge uses this connector");
    }
  }

  const Edge* edge_into(int stage_id) const {
    auto at =
        std::find_if(edges_.begin(), edges_.end(), [&](const Edge& edge) { return edge.to == stage_id; });
    return at == edges_.end() || at->connector == nullptr ? nullptr : &*at;
  }
  const Edge* edge_out_of(int stage_id) const {
    auto at =
        std::find_if(edges_.begin(), edges_.end(), [&](const Edge& edge) { return edge.from == stage_id; });
    return at == edges_.end() || at->connector == nullptr ? nullptr : &*at;
  }
  int port_of(const Edge& edge) const {
    for (const EdgePlan& plan : plan_.edges) {
      if (plan.from_stage == edge.from && plan.to_stage == edge.to) return plan.port;
    }
    return 0;
  }

  /// Rule (a) of docs/config.md: role, own port, and where upstream is.
  void plan_connector(StageEntry& stage) {
    int id = stage.plan.stage_id;
    const Edge* in = edge_into(id);
    const Edge* out = edge_out_of(id);
    if (in == nullptr && out == nullptr) return;
    const ConnectorSpec& spec = *(out != nullptr ? out : in)->connector;
    ConnectorConfig config = spec.config;
    config.stage_id = id;
    config.role = in == nullptr ? Role::sender : out == nullptr ? Role::receiver : Role::dual;
    config.zmq_port = out != nullptr ? port_of(*out) : 0;
    config.sender_host.clear();
    config.sender_zmq_port = 0;
    if (in != nullptr) set_upstream(config, *in);
    check_role(spec, config.role, id);
    check_one_process(stage);
    for (const auto& [key, value] : spec.extra.all()) {
      if (is_chunk_option(key)) stage.plan.chunk_options[key] = value.integer;
    }
    stage.plan.connector = std::move(config);
  }

  void set_upstream(ConnectorConfig& config, const Edge& in) {
    const ConnectorSpec& spec = *in.connector;
    int port = port_of(in);
    config.sender_host = spec.extra.given("sender_host") ? spec.config.sender_host : spec.config.host;
    config.sender_zmq_port = port;
    check_sender_host(spec, in);
    if (!spec.extra.given("sender_zmq_port")) return;
    config.sender_zmq_port = spec.config.sender_zmq_port;
    if (port == 0) {
      diagnostics_.error(spec.place_of("sender_zmq_port"), spec.path_of("sender_zmq_port"), "stage ", in.to,
                         " looks for stage ", in.from, " on port ", config.sender_zmq_port,
                         ", but that binds any free port (zmq_port: 0): leave it out, or set zmq_port");
    } else if (config.sender_zmq_port != port) {
      diagnostics_.warning(spec.place_of("sender_zmq_port"), spec.path_of("sender_zmq_port"), "stage ", in.to,
                           " looks for stage ", in.from, " on port ", config.sender_zmq_port,
                           ", but that binds ", port);
    }
  }

  /// Two names may be one host, so it is only pointed out.
  void check_sender_host(const ConnectorSpec& spec, const Edge& in) {
    const auto plain = [](const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; };
    const std::string& given = spec.config.sender_host;
    const std::string& bound = spec.config.host;
    if (!spec.extra.given("sender_host") || given == "auto" || bound == "auto") return;
    if (plain(given) == plain(bound)) return;
    diagnostics_.warning(spec.place_of("sender_host"), spec.path_of("sender_host"), "stage ", in.to,
                         " looks for stage ", in.from, " at ", given, ", but that binds ", bound);
  }

  void check_role(const ConnectorSpec& spec, Role derived, int stage_id) {
    const Value* role = spec.extra.find("role");
    static constexpr std::string_view kNames[] = {"sender", "receiver", "dual"};
    std::string_view name = kNames[static_cast<std::size_t>(derived)];
    if (role == nullptr || role->text == name) return;
    diagnostics_.warning(spec.place_of("role"), spec.path_of("role"), "stage ", stage_id, " is a ", name,
                         " by its edges, not a ", role->text, ": leave the role out");
  }

  /// One sender and one receiver for each key, and ports that know no rank.
  void check_one_process(const StageEntry& stage) {
    auto place_of = [&](std::string_view key) {
      const Node* node = stage.node->find(key);
      return node != nullptr ? node->place : stage.node->place;
    };
    if (stage.plan.num_replicas > 1) {
      diagnostics_.error(
          place_of("num_replicas"), join_path(stage.path, "num_replicas"), stage.plan.num_replicas,
          " replicas of a stage with edges: a payload has one sender and one receiver, write 1");
    }
    if (stage.tensor_parallel_size > 1) {
      diagnostics_.error(place_of("tensor_parallel_size"), join_path(stage.path, "tensor_parallel_size"),
                         "the connector of a stage serves one rank, not ", stage.tensor_parallel_size,
                         ": write 1, or give this stage no edge");
    }
  }

  void check_port_collisions() {
    std::map<std::pair<std::string, int>, int> binder;
    for (const StagePlan& stage : plan_.stages) {
      if (!stage.connector || stage.connector->zmq_port == 0) continue;
      std::string host = stage.connector->host == "localhost" ? "127.0.0.1" : stage.connector->host;
      auto [first, is_new] = binder.emplace(std::pair(host, stage.connector->zmq_port), stage.stage_id);
      if (is_new) continue;
      const Edge* out = edge_out_of(stage.stage_id);
      const ConnectorSpec& spec = *out->connector;
      diagnostics_.error(spec.place_of("zmq_port"), spec.path_of("zmq_port"), "stages ", first->second,
                         " and ", stage.stage_id, " would both bind port ", stage.connector->zmq_port, " on ",
                         host, ": choose bases that are further apart, or 0 for any port");
    }
  }

  const Node& tree_;
  const std::vector<BackendReport>& backends_;
  Diagnostics& diagnostics_;
  Values top_;
  ConnectorTable connectors_;
  std::vector<StageEntry> stages_;
  std::vector<Edge> edges_;
  DeployPlan plan_;
};

}  // namespace

DeployPlan make_plan(const Node& tree, const std::string& file, const std::vector<BackendReport>& backends,
                     Diagnostics& diagnostics) {
  return Planner(tree, backends, diagnostics).run(file);
}

}  // namespace stagewire::deploy
