#include "deploy/connectors.hpp"

#include "base/fault_spec.hpp"
#include "base/secret_key.hpp"
#include "deploy/host_text.hpp"
#include "deploy/nearest.hpp"

namespace stagewire::deploy {
namespace {

void read_class(const Values& values, ConnectorSpec& spec, Diagnostics& diagnostics) {
  const Value* name = values.find("name");
  if (name == nullptr) return;
  std::vector<std::string_view> known;
  for (const ConnectorClass& one : connector_classes()) {
    known.push_back(one.name);
    if (one.name != name->text) continue;
    spec.class_name = name->text;
    spec.served = one.served;
  }
  if (spec.class_name.empty()) {
    diagnostics.error(name->node->place, join_path(spec.path, "name"), "unknown connector class `",
                      name->text, "`", suggestion(name->text, known));
  }
}

/// Reports what cannot be bound, or told to a peer.
void check_host(const ConnectorSpec& spec, std::string_view key, const std::string& host,
                Diagnostics& diagnostics) {
  const std::string problem = host_problem(host);
  if (problem.empty()) return;
  diagnostics.error(spec.place_of(key), spec.path_of(key), "`", host, "` ", problem,
                    ": write one address or name of this machine, or auto");
}

/// Only a key that is not there means no encryption. The key itself is not shown.
void check_secret_key(const ConnectorSpec& spec, Diagnostics& diagnostics) {
  if (!spec.extra.given("secret_key")) return;
  const Place place = spec.place_of("secret_key");
  const std::string path = spec.path_of("secret_key");
  if (spec.config.secret_key.empty()) {
    diagnostics.error(place, path,
                      "is empty, which is no key: set it (`openssl rand -hex 32` makes one), or ",
                      "leave `secret_key` out for no encryption");
  } else if (auto key = base::z85_secret_key(spec.config.secret_key); !key) {
    diagnostics.error(place, path, key.error().message());
  }
}

void check_fault_spec(const ConnectorSpec& spec, Diagnostics& diagnostics) {
  if (auto faults = base::FaultSpec::parse(spec.config.fault_spec); !faults)
    diagnostics.error(spec.place_of("fault_spec"), spec.path_of("fault_spec"), faults.error().message());
}

/// Payloads are kept for whole milliseconds; 0 means for ever and not at once.
void check_buffer_ttl(const ConnectorSpec& spec, Diagnostics& diagnostics) {
  constexpr double kShortest = 0.001;
  const double seconds = spec.config.buffer_ttl_s;
  if (seconds == 0 || seconds >= kShortest) return;
  diagnostics.error(spec.place_of("buffer_ttl_s"), spec.path_of("buffer_ttl_s"), seconds,
                    " is out of range: 0 for never, or at least ", kShortest);
}

void read_extra(const Node& extra, ConnectorSpec& spec, Diagnostics& diagnostics) {
  std::string path = join_path(spec.path, "extra");
  for (const Entry& entry : extra.entries) {
    if (is_injected_key(entry.key)) {
      diagnostics.error(entry.place, join_path(path, entry.key), "follows from the edges: leave it out");
    }
  }
  spec.extra = read_map(extra, extra_keys(), path, diagnostics, Unknown::keep);
  for (const Entry& entry : extra.entries) {
    if (find_key(extra_keys(), entry.key) != nullptr || is_injected_key(entry.key)) continue;
    diagnostics.error(entry.place, join_path(path, entry.key), "unknown key",
                      suggestion(entry.key, key_names(extra_keys())));
  }
}

void fill_config(ConnectorSpec& spec, Diagnostics& diagnostics) {
  for (const auto& [key, value] : spec.extra.all()) store(spec.config, key, value);
  check_host(spec, "host", spec.config.host, diagnostics);
  if (spec.extra.given("sender_host")) check_host(spec, "sender_host", spec.config.sender_host, diagnostics);
  check_secret_key(spec, diagnostics);
  check_fault_spec(spec, diagnostics);
  check_buffer_ttl(spec, diagnostics);
}

}  // namespace

Place ConnectorSpec::place_of(std::string_view key) const {
  const Value* value = extra.find(key);
  return value != nullptr && value->node != nullptr ? value->node->place : place;
}

std::string ConnectorSpec::path_of(std::string_view key) const {
  return join_path(join_path(path, "extra"), key);
}

ConnectorPtr read_connector(const Node& node, const std::string& name, const std::string& path,
                            Diagnostics& diagnostics) {
  auto spec = std::make_shared<ConnectorSpec>();
  spec->name = name;
  spec->path = path;
  spec->place = node.place;
  if (!node.is_map()) {
    diagnostics.error(node.place, path, "expected a map with `name` and `extra`, found ", describe(node));
    return spec;
  }
  Values values = read_map(node, connector_keys(), path, diagnostics, Unknown::keep);
  for (const Entry& entry : node.entries) {
    if (find_key(connector_keys(), entry.key) != nullptr) continue;
    bool is_extra = find_key(extra_keys(), entry.key) != nullptr;
    diagnostics.error(
        entry.place, join_path(path, entry.key), "unknown key",
        is_extra ? ": it belongs under `extra`" : suggestion(entry.key, key_names(connector_keys())));
  }
  if (node.find("name") == nullptr) {
    diagnostics.error(node.place, path, "has no `name`: write name: MoriTransferEngineConnector");
  }
  read_class(values, *spec, diagnostics);
  if (!spec->served) return spec;
  Node none = map_node(node.place);
  const Value* extra = values.find("extra");
  read_extra(extra != nullptr ? *extra->node : none, *spec, diagnostics);
  fill_config(*spec, diagnostics);
  return spec;
}

ConnectorTable::ConnectorTable(const Node* connectors, Diagnostics& diagnostics) {
  if (connectors == nullptr || !connectors->is_map()) return;  // another kind was reported with the top level
  for (const Entry& entry : connectors->entries) {
    by_name_[entry.key] =
        read_connector(entry.value, entry.key, join_path("connectors", entry.key), diagnostics);
  }
}

ConnectorPtr ConnectorTable::resolve(const Node& reference, const std::string& path,
                                     Diagnostics& diagnostics) const {
  if (reference.is_map()) return read_connector(reference, "inline", path, diagnostics);
  auto nothing = std::make_shared<ConnectorSpec>();
  nothing->path = path;
  nothing->place = reference.place;
  if (reference.broken) return nothing;
  if (!reference.is_scalar()) {
    diagnostics.error(reference.place, path, "expected the name of a connector or {name, extra}, found ",
                      describe(reference));
    return nothing;
  }
  auto found = by_name_.find(reference.text);
  if (found != by_name_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [name, spec] : by_name_) names.push_back(name);
  std::string_view near = nearest(reference.text, names);
  diagnostics.error(reference.place, path, "undefined connector `", reference.text, "`",
                    near.empty() ? defined() : "; did you mean " + std::string(near) + "?");
  return nothing;
}

std::string ConnectorTable::defined() const {
  std::string out;
  for (const auto& [name, spec] : by_name_) out += (out.empty() ? "; defined: " : ", ") + name;
  return out.empty() ? ": there is none under `connectors`" : out;
}

std::vector<std::string> differing_keys(const ConnectorSpec& a, const ConnectorSpec& b,
                                        bool with_directional) {
  std::vector<std::string> out;
  if (a.class_name != b.class_name) out.push_back("name");
  auto text = [](const Value* value) { return value == nullptr ? std::string() : value->canonical(); };
  for (const KeySpec& key : extra_keys()) {
    if (!with_directional && is_directional(key.name)) continue;
    if (text(a.extra.find(key.name)) != text(b.extra.find(key.name))) out.emplace_back(key.name);
  }
  return out;
}

}  // namespace stagewire::deploy
