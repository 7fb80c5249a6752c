// The reference page: the schema table, written as Markdown.
#include <cmath>

#include "deploy/schema.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire {
namespace {

using deploy::KeySpec;
using deploy::Origin;
using deploy::Use;
using deploy::ValueType;

std::string allowed(const KeySpec& key) {
  std::string out;
  if (!key.choices.empty()) {
    for (std::string_view one : deploy::split_choices(key.choices)) {
      out += (out.empty() ? "`" : ", `") + std::string(one) + "`";
    }
    return out;
  }
  if (std::isinf(key.minimum)) return "";
  if (std::isinf(key.maximum)) return "at least " + deploy::bound_text(key, key.minimum);
  return deploy::bound_text(key, key.minimum) + " to " + deploy::bound_text(key, key.maximum);
}

std::string row_of(const KeySpec& key) {
  std::string from = key.origin == Origin::stagewire ? "Stagewire" : "vllm-omni";
  if (key.use == Use::engine) from += ", engine";
  std::string fallback = key.fallback.empty() ? "" : "`" + std::string(key.fallback) + "`";
  return "| `" + std::string(key.name) + "` | " + std::string(to_string(key.type)) + " | " + fallback +
         " | " + allowed(key) + " | " + from + " | " + std::string(key.meaning) + " |\n";
}

std::string table(std::string_view title, std::string_view introduction, deploy::KeySpecs keys) {
  std::string out = "### " + std::string(title) + "\n\n" + std::string(introduction) + "\n\n" +
                    "| key | value | default | allowed | from | meaning |\n"
                    "| --- | --- | --- | --- | --- | --- |\n";
  for (const KeySpec& key : keys) out += row_of(key);
  return out + "\n";
}

std::string connector_class_list() {
  std::string out = "### Connector classes\n\n| class | served by Stagewire |\n| --- | --- |\n";
  for (const deploy::ConnectorClass& one : deploy::connector_classes()) {
    out += "| `" + std::string(one.name) + "` | " +
           (one.served ? "yes" : "no: an error on every edge that uses it") + " |\n";
  }
  return out;
}

}  // namespace

std::string deploy_reference() {
  return table("Top level", "Another key is an error.", deploy::top_level_keys()) +
         table("An entry of `stages`", "Another key is kept as an engine option and listed.",
               deploy::stage_keys()) +
         table("`runtime` of a stage", "Another key is kept as an engine option and listed.",
               deploy::runtime_keys()) +
         table("An entry of `edges`", "Another key is an error.", deploy::edge_keys()) +
         table("A connector", "Under `connectors`, or written out where it is used. Another key is an error.",
               deploy::connector_keys()) +
         table("`extra` of MoriTransferEngineConnector", "Another key is an error.", deploy::extra_keys()) +
         table("`duplex_session`", "Another key is an error.", deploy::duplex_session_keys()) +
         connector_class_list();
}

}  // namespace stagewire
