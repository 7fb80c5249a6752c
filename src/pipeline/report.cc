// What a run's report looks like, for people and for programs.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "stagewire/pipeline.hpp"

namespace stagewire {
namespace {

std::array<std::pair<const char*, const RouteCounters*>, 4> routes_of(const EdgeReport& edge) {
  return {{{"eager", &edge.eager}, {"lease", &edge.lease}, {"read", &edge.read}, {"write", &edge.write}}};
}

template <typename... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, numbers...);
  return line.data();
}

}  // namespace

std::string EdgeReport::route() const {
  std::string names;
  std::string counts;
  int used = 0;
  for (const auto& [name, counters] : routes_of(*this)) {
    if (counters->count == 0) continue;
    names = name;
    counts += base::text(counts.empty() ? "" : ", ", name, " ", counters->count);
    ++used;
  }
  if (used == 0) return "none";
  return used == 1 ? names : counts;
}

std::string to_text(const PipelineReport& report) {
  std::string text =
      "request " + report.request_id +
      formatted(": %.2f s of audio in %.3f s, real-time factor %.4f, first packet after %.1f ms\n",
                report.audio_seconds, report.run_seconds, report.real_time_factor(),
                report.first_packet_seconds * 1e3);
  for (const EdgeReport& edge : report.edges) {
    text += base::text("edge ", edge.from_stage, " -> ", edge.to_stage, " over ", edge.connector, ": route ",
                       edge.route(), " (", edge.route_reason, ")\n  ", edge.chunks, " chunks, ", edge.bytes,
                       " bytes");
    text += formatted(", %.3f MB/s; put to ready p50 %.1f us, p90 %.1f us, p99 %.1f us\n", edge.mb_per_s,
                      edge.latency_p50_us, edge.latency_p90_us, edge.latency_p99_us);
  }
  return text;
}

std::string to_json(const PipelineReport& report) {
  using json = nlohmann::ordered_json;
  json edges = json::array();
  for (const EdgeReport& edge : report.edges) {
    json routes = json::object();
    for (const auto& [name, counters] : routes_of(edge)) {
      routes[name] = {{"chunks", counters->count}, {"bytes", counters->bytes}};
    }
    edges.push_back(
        {{"from_stage", edge.from_stage},
         {"to_stage", edge.to_stage},
         {"connector", edge.connector},
         {"route", edge.route()},
         {"route_reason", edge.route_reason},
         {"routes", routes},
         {"chunks", edge.chunks},
         {"bytes", edge.bytes},
         {"mb_per_s", edge.mb_per_s},
         {"latency_us",
          {{"p50", edge.latency_p50_us}, {"p90", edge.latency_p90_us}, {"p99", edge.latency_p99_us}}}});
  }
  const json request = {{"id", report.request_id},
                        {"input", report.input},
                        {"output", report.output},
                        {"audio_s", report.audio_seconds},
                        {"run_s", report.run_seconds},
                        {"time_to_first_packet_ms", report.first_packet_seconds * 1e3},
                        {"real_time_factor", report.real_time_factor()}};
  // Paths need not be UTF-8.
  return json{{"request", request}, {"edges", edges}}.dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

}  // namespace stagewire
