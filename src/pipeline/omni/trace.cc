#include "pipeline/omni/trace.hpp"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/text.hpp"

namespace stagewire::pipeline::omni {
namespace {

using nlohmann::json;

constexpr double kMaxTime = 1e9;  // ms: eleven days
constexpr std::size_t kMaxIdSize = 200;

/// One line, each field checked by itself.
struct Line {
  double t_ms = 0;
  std::string request;
  bool is_thinker = false;
  std::int64_t count = 0;
  bool finished = false;
};

/// What is wrong with a line, in words.
struct Complaint {
  std::string what;
};

[[noreturn]] void complain(const std::string& what) {
  throw Complaint{what};
}

const json& field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) complain(base::text("\"", name, "\" is missing"));
  return *found;
}

double read_time(const json& value) {
  if (!value.is_number()) complain("\"t_ms\" is no number");
  const double time = value.get<double>();
  if (!(time >= 0 && time <= kMaxTime)) complain("\"t_ms\" is not from 0 to 1e9");
  return time;
}

std::string read_request(const json& value) {
  if (!value.is_string()) complain("\"request\" is no string");
  auto id = value.get<std::string>();
  if (id.empty() || id.size() > kMaxIdSize)
    complain(base::text("\"request\" has ", id.size(), " bytes, it must have 1 to ", kMaxIdSize));
  return id;
}

bool read_is_thinker(const json& value) {
  if (value == "thinker") return true;
  if (value != "talker") complain("\"stage\" is neither \"thinker\" nor \"talker\"");
  return false;
}

std::int64_t read_count(const json& value, const char* name) {
  if (!value.is_number_integer() || value < 0 || value > kMaxPromptTokens)
    complain(base::text("\"", name, "\" is no whole number from 0 to ", kMaxPromptTokens));
  return value.get<std::int64_t>();
}

Line read_line(std::string_view text) {
  const json object = json::parse(text);
  if (!object.is_object()) complain("a JSON object is wanted on each line");
  Line line;
  line.t_ms = read_time(field(object, "t_ms"));
  line.request = read_request(field(object, "request"));
  line.is_thinker = read_is_thinker(field(object, "stage"));
  const char* count_name = line.is_thinker ? "rows" : "frames";
  line.count = read_count(field(object, count_name), count_name);
  if (const auto finished = object.find("finished"); finished != object.end()) {
    if (!finished->is_boolean()) complain("\"finished\" is neither true nor false");
    line.finished = finished->get<bool>();
  }
  for (const auto& [name, value] : object.items()) {
    if (name != "t_ms" && name != "request" && name != "stage" && name != count_name && name != "finished")
      complain(base::text("unknown key \"", name, "\""));
  }
  return line;
}

/// The requests of the lines so far.
class Gatherer {
 public:
  void add(const Line& line) {
    const auto [place, is_new] = index_.emplace(line.request, requests_.size());
    if (is_new) {
      if (requests_.size() == kMaxTraceRequests)
        complain(base::text("there are more than ", kMaxTraceRequests, " requests"));
      requests_.emplace_back();
      requests_.back().external_id = line.request;
    }
    RequestSchedule& request = requests_[place->second];
    std::vector<Step>& steps = line.is_thinker ? request.thinker : request.talker;
    check_order(line, steps);
    const bool is_prompt = line.is_thinker && steps.empty();
    if (!is_prompt && line.count > kMaxStepCount)
      complain(base::text("a step after the prompt makes at most ", kMaxStepCount, ", not ", line.count));
    if (line.count == 0 && (line.is_thinker || !line.finished))
      complain("a step that makes nothing: only a talker's last one may");
    if (is_prompt) {
      request.start_ms = line.t_ms;
      request.prompt_tokens = line.count;
    }
    // A talker begins with the thinker's first chunk, which has a row after the prompt.
    steps.push_back({line.t_ms, line.count, line.is_thinker ? 0 : 1, line.finished});
  }

  /// The first request that has no end.
  void check_ends() const {
    for (const RequestSchedule& request : requests_) {
      for (const auto& [name, steps] :
           {std::pair("thinker", &request.thinker), std::pair("talker", &request.talker)}) {
        if (steps->empty() || !steps->back().last)
          complain(base::text("request \"", request.external_id, "\" has no line of the ", name,
                              " with \"finished\": true"));
      }
      if (request.frame_count() == 0)
        complain(base::text("request \"", request.external_id, "\" has no frame"));
    }
    if (requests_.empty()) complain("there is no line in it");
  }

  std::vector<RequestSchedule> take() { return std::move(requests_); }

 private:
  static void check_order(const Line& line, const std::vector<Step>& steps) {
    const char* stage = line.is_thinker ? "thinker" : "talker";
    if (steps.empty()) return;
    if (steps.back().last)
      complain(base::text("the ", stage, " of request \"", line.request, "\" has finished before"));
    if (line.t_ms < steps.back().at_ms)
      complain(base::text("\"t_ms\" is ", line.t_ms, ", before the last line of this request's ", stage, ", ",
                          steps.back().at_ms));
  }

  std::vector<RequestSchedule> requests_;
  std::map<std::string, std::size_t> index_;
};

Error error_at(std::string_view file, std::size_t line, std::string_view what) {
  return base::error(ErrorCode::invalid_argument, file, ":", line, ": ", what);
}

}  // namespace

std::string trace_line(const TraceStep& step) {
  const bool is_thinker = step.stage == 0;
  nlohmann::ordered_json line{{"t_ms", step.t_ms},
                              {"request", step.request},
                              {"stage", is_thinker ? "thinker" : "talker"},
                              {is_thinker ? "rows" : "frames", step.count}};
  if (step.last) line["finished"] = true;
  return line.dump() + "\n";
}

std::size_t longest_trace_line(std::string_view request) {
  return trace_line({request, 0, kMaxTime - 1e-3, kMaxPromptTokens, true}).size();
}

Result<std::vector<RequestSchedule>> parse_trace(std::string_view text, std::string_view file) {
  Gatherer gatherer;
  std::size_t number = 0;
  try {
    while (!text.empty()) {
      ++number;
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      gatherer.add(read_line(line));
    }
    gatherer.check_ends();
  } catch (const Complaint& complaint) {
    return error_at(file, number, complaint.what);
  } catch (const json::exception& error) {
    return error_at(file, number, error.what());
  }
  return gatherer.take();
}

Result<std::vector<RequestSchedule>> read_trace(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const auto failed = [&] {
    return base::error(ErrorCode::invalid_argument, "cannot read ", file, ": ",
                       std::generic_category().message(errno));
  };
  if (!in) return failed();
  const std::streamoff size = in.tellg();
  if (size < 0) return failed();
  if (static_cast<std::size_t>(size) > kMaxTraceSize)
    return base::error(ErrorCode::too_large, file, " has ", size, " bytes, a trace has at most ",
                       kMaxTraceSize);
  std::string text(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(text.data(), size)) return failed();
  return parse_trace(text, file);
}

}  // namespace stagewire::pipeline::omni
