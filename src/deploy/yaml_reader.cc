#include "deploy/yaml_reader.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "deploy/text_check.hpp"

namespace stagewire::deploy {
namespace {

/// Ends the reading; caught in read_document().
struct Refused {
  Place place;
  std::string message;
};

/// Turns the parser's events into a Node, within the limits.
class TreeBuilder : public YAML::EventHandler {
 public:
  /// `fixed`: every place is this one (the text is not a file of its own).
  TreeBuilder(std::string_view text, Place fixed, bool in_file, Diagnostics& diagnostics)
      : text_(text), fixed_(std::move(fixed)), in_file_(in_file), diagnostics_(diagnostics) {}

  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw Refused{place(mark), "a second document (---): a deploy file holds exactly one"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.place = place(mark);
    if (awaits_key())
      throw Refused{node.place, "an empty key, or null as a key: write it in quotes if it is meant"};
    // The library takes nothing between two commas of a list for a null.
    if (!stack_.empty() && stack_.back().node.is_list() && at(mark).substr(0, 1) == ",")
      throw Refused{node.place,
                    "nothing stands before this comma: take it away, or write null if it is meant"};
    count(1, node.place);
    finish(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    // The library takes the end of the text for the end of the quotes.
    if (const auto open = find_open_quote(at(mark))) {
      throw Refused{place_after(mark, *open), "these quotes are not closed before the end of the text"};
    }
    if (value.find('\0') != std::string::npos) throw Refused{place(mark), "a NUL character inside a value"};
    if (awaits_key()) {
      if (base::printable(value) != value) throw Refused{place(mark), "a control character inside a key"};
      if (value == "<<" && tag != "!") {
        throw Refused{place(mark),
                      "merge keys (<<) are not read: repeat the keys, or share a file by base_config"};
      }
      stack_.back().key = value;
      stack_.back().key_place = place(mark);
      stack_.back().has_key = true;
      return;
    }
    Node node = scalar_node(value, place(mark));
    node.quoted = tag == "!";
    count(1, node.place);
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (awaits_key()) throw Refused{place(mark), "an alias as a key: write the key out"};
    auto known = anchors_.find(anchor);
    if (known == anchors_.end())
      throw Refused{place(mark), "this alias stands inside the value that it names"};
    count(known->second.count, place(mark));
    Node copy = known->second.node;
    finish(std::move(copy), YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open(list_node(place(mark)), anchor, "a list");
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open(map_node(place(mark)), anchor, "a map");
  }
  void OnMapEnd() override { close(); }

  Place place(const YAML::Mark& mark) const {
    if (!in_file_ || mark.is_null()) return fixed_;
    return {fixed_.file, mark.line + 1, mark.column + 1};
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::size_t count_before = 0;
    bool has_key = false;
    std::string key;
    Place key_place;
  };
  struct Anchored {
    Node node;
    std::size_t count = 1;
  };

  /// The text from a mark on.
  std::string_view at(const YAML::Mark& mark) const {
    const std::size_t start = text_.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;  // marks do not count it
    const std::size_t offset = start + static_cast<std::size_t>(std::max(mark.pos, 0));
    return mark.is_null() || offset >= text_.size() ? std::string_view() : text_.substr(offset);
  }

  Place place_after(const YAML::Mark& mark, std::size_t offset) const {
    YAML::Mark moved = mark;
    for (const char c : at(mark).substr(0, offset)) {
      moved.column = c == '\n' ? 0 : moved.column + 1;
      if (c == '\n') ++moved.line;
    }
    return place(moved);
  }

  bool awaits_key() const { return !stack_.empty() && stack_.back().node.is_map() && !stack_.back().has_key; }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused{place(mark), "the tag " + tag + ": tags are not read; put strings in quotes instead"};
  }

  void count(std::size_t added, const Place& where) {
    count_ += added;
    if (count_ > kMaxNodeCount) {
      throw Refused{where,
                    base::text("more than ", kMaxNodeCount,
                               " values, aliases counted as often as they are used: not a deploy file")};
    }
  }

  void open(Node node, YAML::anchor_t anchor, std::string_view what) {
    if (awaits_key())
      throw Refused{node.place,
                    base::text(what, " as a key: keys are plain words (or a bracket is not closed)")};
    if (stack_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      throw Refused{node.place, base::text("nested deeper than ", kMaxDepth, " levels: not a deploy file")};
    }
    Frame frame;
    frame.count_before = count_;
    count(1, node.place);
    frame.node = std::move(node);
    frame.anchor = anchor;
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (frame.anchor != YAML::NullAnchor) anchors_[frame.anchor] = {frame.node, count_ - frame.count_before};
    attach(std::move(frame.node));
  }

  void finish(Node node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {node, 1};
    attach(std::move(node));
  }

  void attach(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.has_key = false;
    add_entry(parent, std::move(node));
  }

  void add_entry(Frame& parent, Node node) {
    for (const Entry& entry : parent.node.entries) {
      if (entry.key != parent.key) continue;
      std::string first = entry.place.line > 0 ? base::text(" (first in line ", entry.place.line, ")") : "";
      diagnostics_.error(parent.key_place, parent_path(), "the key `", parent.key, "` stands here twice",
                         first, ": remove one");
      return;
    }
    parent.node.entries.push_back({parent.key, parent.key_place, std::move(node)});
  }

  /// Where the map on top of the stack stands, in the words of --set as far as they are known here.
  std::string parent_path() const {
    std::string path;
    for (std::size_t level = 0; level + 1 < stack_.size(); ++level) {
      const Frame& frame = stack_[level];
      path = join_path(path, frame.node.is_map() ? frame.key : base::text(frame.node.items.size()));
    }
    return path;
  }

  std::string_view text_;
  Place fixed_;
  bool in_file_;
  Diagnostics& diagnostics_;
  int documents_ = 0;
  std::size_t count_ = 0;
  Node root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
};

std::optional<Node> read_document(std::string_view text, const Place& start, bool in_file,
                                  const std::string& path, Diagnostics& diagnostics) {
  TreeBuilder builder(text, start, in_file, diagnostics);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take_root();
  } catch (const Refused& refused) {
    diagnostics.error(refused.place, path, refused.message);
  } catch (const YAML::Exception& exception) {
    diagnostics.error(builder.place(exception.mark), path, "not YAML: ", exception.msg);
  } catch (const std::exception& exception) {
    diagnostics.error(start, path, "cannot be read: ", exception.what());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Node> read_yaml(std::string_view text, const std::string& name, Diagnostics& diagnostics) {
  Place start{std::make_shared<const std::string>(name), 1, 1};
  if (text.size() > kMaxFileSize) {
    diagnostics.error({start.file, 0, 0}, "", text.size(), " bytes: a deploy file has at most ",
                      kMaxFileSize);
    return std::nullopt;
  }
  if (auto problem = find_text_problem(text)) {
    diagnostics.error({start.file, problem->line, problem->column}, "", problem->message);
    return std::nullopt;
  }
  return read_document(text, start, true, "", diagnostics);
}

std::optional<Node> read_yaml_value(std::string_view text, const Place& place, const std::string& path,
                                    Diagnostics& diagnostics) {
  if (text.size() > kMaxFileSize || find_text_problem(text)) {
    diagnostics.error(place, path, "the value is no UTF-8 text, or longer than ", kMaxFileSize, " bytes");
    return std::nullopt;
  }
  return read_document(text, place, false, path, diagnostics);
}

}  // namespace stagewire::deploy
