#include "deploy/diagnostics.hpp"

#include <algorithm>
#include <tuple>

#include "base/printable.hpp"

namespace stagewire {

std::string Diagnostic::to_string() const {
  std::string out = file;
  if (line > 0) out += base::text(":", line, ":", column);
  out += severity == Severity::error     ? ": error: "
         : severity == Severity::warning ? ": warning: "
                                         : ": note: ";
  if (!path.empty()) out += path + ": ";
  return base::printable(out + message);
}

namespace deploy {

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string item_path(const std::string& path, std::size_t index, const Node& item) {
  const Node* stage_id = item.find("stage_id");
  return join_path(path, stage_id != nullptr && stage_id->is_scalar() ? stage_id->text : base::text(index));
}

void Diagnostics::add(Diagnostic::Severity severity, const Place& place, const std::string& path,
                      std::string message) {
  Diagnostic added{
      severity, place.file ? *place.file : std::string(), place.line, place.column, path, std::move(message)};
  auto same = [&](const Diagnostic& other) {
    return other.severity == added.severity && other.line == added.line && other.column == added.column &&
           other.file == added.file && other.message == added.message && other.path == added.path;
  };
  if (std::any_of(list_.begin(), list_.end(), same)) return;
  if (severity == Diagnostic::Severity::error) ++error_count_;
  auto of_this_kind = std::count_if(list_.begin(), list_.end(),
                                    [&](const Diagnostic& other) { return other.severity == severity; });
  if (static_cast<std::size_t>(of_this_kind) >= kMaxShown) {
    ++left_out_;
    return;
  }
  if (std::find(files_.begin(), files_.end(), added.file) == files_.end()) files_.push_back(added.file);
  list_.push_back(std::move(added));
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> out = list_;
  auto order = [&](const Diagnostic& one) {
    auto file = std::find(files_.begin(), files_.end(), one.file) - files_.begin();
    return std::tuple(one.severity, file, one.line, one.column);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return order(a) < order(b); });
  if (left_out_ > 0) {
    Diagnostic more;
    more.severity = Diagnostic::Severity::note;
    more.file = out.empty() ? "" : out.front().file;
    more.message = base::text(left_out_, " more of the same kinds are not shown");
    out.push_back(std::move(more));
  }
  return out;
}

}  // namespace deploy
}  // namespace stagewire
