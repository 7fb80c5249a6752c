// What a run's report looks like, for people and for programs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

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

template <typename Report>
std::string figures_text(const Report& report) {
  return formatted(": %.2f s of audio in %.3f s, real-time factor %.4f, first packet after %.1f ms\n",
                   report.audio_seconds, report.run_seconds, report.real_time_factor(),
                   report.first_packet_seconds * 1e3);
}

std::string file_text(const PipelineReport& report) {
  return "request " + report.request_id + figures_text(report);
}

/// Requests that are printed one by one; the rest is in the JSON file.
constexpr std::size_t kMostPrinted = 100;

/// Some figure of all requests that were done, in order.
std::vector<double> sorted_figures(const PipelineReport& report, double (*figure)(const RequestReport&)) {
  std::vector<double> figures;
  for (const RequestReport& request : report.requests) {
    if (request.error.empty()) figures.push_back(figure(request));
  }
  std::sort(figures.begin(), figures.end());
  return figures;
}

/// The figure that so large a share of them does not exceed; 0 when there are none.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(at, 1) - 1];
}

double first_packet_ms(const RequestReport& request) {
  return request.first_packet_seconds * 1e3;
}

double real_time_factor(const RequestReport& request) {
  return request.real_time_factor();
}

std::string replay_text(const PipelineReport& report) {
  const std::size_t failed = report.failed_count();
  std::string text = base::text("replay ", report.request_id, " of ", report.pipeline, ", ",
                                report.requests.size() - failed, " requests done, ", failed, " failed") +
                     figures_text(report);
  const auto packets = sorted_figures(report, first_packet_ms);
  const auto factors = sorted_figures(report, real_time_factor);
  text += formatted("  of a request: first packet p50 %.1f ms, p90 %.1f ms, p99 %.1f ms; ",
                    quantile(packets, 0.5), quantile(packets, 0.9), quantile(packets, 0.99));
  text += formatted("real-time factor p50 %.4f, p90 %.4f, p99 %.4f\n", quantile(factors, 0.5),
                    quantile(factors, 0.9), quantile(factors, 0.99));
  for (std::size_t i = 0; i < std::min(report.requests.size(), kMostPrinted); ++i) {
    const RequestReport& request = report.requests[i];
    text += "request " + request.id;
    text += request.error.empty() ? figures_text(request) : " failed: " + request.error + "\n";
  }
  if (report.requests.size() > kMostPrinted)
    text += base::text("and ", report.requests.size() - kMostPrinted, " more, see --stats-json\n");
  return text;
}

using json = nlohmann::ordered_json;

template <typename Report>
json with_figures(json object, const Report& report) {
  object["audio_s"] = report.audio_seconds;
  object["run_s"] = report.run_seconds;
  object["time_to_first_packet_ms"] = report.first_packet_seconds * 1e3;
  object["real_time_factor"] = report.real_time_factor();
  return object;
}

json requests_json(const PipelineReport& report) {
  json requests = json::array();
  for (const RequestReport& request : report.requests) {
    const char* status = request.error.empty() ? "done" : "failed";
    requests.push_back(
        with_figures({{"id", request.id}, {"status", status}, {"error", request.error}}, request));
  }
  return requests;
}

json quantiles_json(const std::vector<double>& sorted) {
  return {{"p50", quantile(sorted, 0.5)}, {"p90", quantile(sorted, 0.9)}, {"p99", quantile(sorted, 0.99)}};
}

json replay_json(const PipelineReport& report) {
  json run = {{"id", report.request_id},
              {"pipeline", report.pipeline},
              {"requests", report.requests.size()},
              {"failed", report.failed_count()}};
  run = with_figures(std::move(run), report);
  run["request_first_packet_ms"] = quantiles_json(sorted_figures(report, first_packet_ms));
  run["request_real_time_factor"] = quantiles_json(sorted_figures(report, real_time_factor));
  return {{"run", run}, {"requests", requests_json(report)}};
}

json file_json(const PipelineReport& report) {
  return {{"request",
           with_figures({{"id", report.request_id}, {"input", report.input}, {"output", report.output}},
                        report)}};
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

std::size_t PipelineReport::failed_count() const {
  return static_cast<std::size_t>(std::count_if(
      requests.begin(), requests.end(), [](const RequestReport& request) { return !request.error.empty(); }));
}

std::string to_text(const PipelineReport& report) {
  std::string text = report.requests.empty() ? file_text(report) : replay_text(report);
  for (const EdgeReport& edge : report.edges) {
    text += base::text("edge ", edge.from_stage, " -> ", edge.to_stage, " over ", edge.connector, ": route ",
                       edge.route(), " (", edge.route_reason, ")\n  ", edge.chunks, " chunks, ", edge.bytes,
                       " bytes");
    text += formatted(", %.3f MB/s; put to ready p50 %.1f us, p90 %.1f us, p99 %.1f us\n", edge.mb_per_s,
                      edge.latency_p50_us, edge.latency_p90_us, edge.latency_p99_us);
    if (edge.most_held > 0)
      text += base::text("  up to ", edge.most_held, " requests at once held back by active_stream_window\n");
  }
  return text;
}

std::string to_json(const PipelineReport& report) {
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
         {"most_held", edge.most_held},
         {"mb_per_s", edge.mb_per_s},
         {"latency_us",
          {{"p50", edge.latency_p50_us}, {"p90", edge.latency_p90_us}, {"p99", edge.latency_p99_us}}}});
  }
  json root = report.requests.empty() ? file_json(report) : replay_json(report);
  root["edges"] = std::move(edges);
  // Paths need not be UTF-8.
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace stagewire
