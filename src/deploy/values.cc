#include "deploy/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.hpp"
#include "deploy/nearest.hpp"
#include "deploy/schema.hpp"

namespace stagewire::deploy {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

/// Words that some YAML readers take for booleans.
bool is_boolean_word(std::string_view text) {
  static constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off", "y", "n"};
  std::string word = lower(text);
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

bool means_true(std::string_view text) {
  std::string word = lower(text);
  return word == "true" || word == "yes" || word == "on" || word == "y" || word == "1";
}

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  auto [stopped, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return value;
}

bool looks_like_number(std::string_view text) {
  return parse_whole<double>(text).has_value() || text.substr(0, 2) == "0x" || text.substr(0, 2) == "0o";
}

/// The shortest decimal that reads back as the same number.
std::string number_text(double number) {
  constexpr double kWholeNumbersEnd = 1e15;
  if (number == std::floor(number) && std::abs(number) < kWholeNumbersEnd) {
    return base::text(static_cast<std::int64_t>(number));
  }
  char buffer[32];
  auto [end, failure] = std::to_chars(std::begin(buffer), std::end(buffer), number);
  STAGEWIRE_CHECK(failure == std::errc(), "32 characters hold every double");
  return {std::begin(buffer), end};
}

/// One scalar on its way to a value: where errors go, and what they say.
class Reading {
 public:
  Reading(const KeySpec& key, const Node& node, const std::string& path, Diagnostics& diagnostics)
      : key_(key), node_(node), path_(path), diagnostics_(diagnostics) {
    value_.type = key.type;
    value_.node = &node;
  }

  std::optional<Value> run() {
    switch (key_.type) {
      case ValueType::any:
        return value_;
      case ValueType::map:
        return node_.is_map() ? std::optional(value_) : refuse("a map");
      case ValueType::list:
        return node_.is_list() ? std::optional(value_) : refuse("a list");
      default:
        break;
    }
    if (!node_.is_scalar()) return refuse(to_string(key_.type));
    if (node_.broken) return std::nullopt;
    switch (key_.type) {
      case ValueType::boolean:
        return boolean();
      case ValueType::integer:
        return integer();
      case ValueType::number:
        return number();
      case ValueType::size:
        return size();
      case ValueType::choice:
        return choice();
      default:
        return words();
    }
  }

 private:
  template <typename... Parts>
  std::optional<Value> fail(const Parts&... parts) {
    diagnostics_.error(node_.place, path_, parts...);
    return std::nullopt;
  }

  std::optional<Value> refuse(std::string_view expected, std::string_view advice = "") {
    return fail("expected ", expected, ", found ", describe(node_), advice);
  }

  bool is_string() const { return node_.quoted && !node_.expanded; }

  std::optional<Value> boolean() {
    if (is_string()) return refuse("true or false", ": write it without quotes");
    if (node_.text != "true" && node_.text != "false") {
      bool known = is_boolean_word(node_.text) || node_.text == "0" || node_.text == "1";
      return refuse("true or false",
                    known ? (means_true(node_.text) ? ": write true" : ": write false") : "");
    }
    value_.boolean = node_.text == "true";
    return value_;
  }

  std::optional<Value> integer() {
    if (is_string()) return refuse("an integer", ": write it without quotes");
    auto parsed = parse_whole<std::int64_t>(node_.text);
    if (!parsed) return refuse("an integer", node_.text.substr(0, 2) == "0x" ? ": write it in decimal" : "");
    bool leading_zero = node_.text.size() > 1 && node_.text.front() == '0';
    if (leading_zero) return refuse("an integer", ": some readers take a leading 0 for octal, leave it out");
    value_.integer = *parsed;
    return within(static_cast<double>(*parsed)) ? std::optional(value_) : std::nullopt;
  }

  std::optional<Value> number() {
    if (is_string()) return refuse("a number", ": write it without quotes");
    auto parsed = parse_whole<double>(node_.text);
    if (!parsed || !std::isfinite(*parsed)) return refuse("a number");
    value_.number = *parsed;
    return within(*parsed) ? std::optional(value_) : std::nullopt;
  }

  std::optional<Value> size() {
    auto parsed = parse_size(node_.text);
    if (!parsed) return fail(parsed.error().message());
    value_.size = *parsed;
    return within(static_cast<double>(*parsed)) ? std::optional(value_) : std::nullopt;
  }

  std::optional<Value> choice() {
    auto choices = split_choices(key_.choices);
    value_.text = lower(node_.text);
    if (std::find(choices.begin(), choices.end(), value_.text) != choices.end()) return value_;
    std::string known;
    for (std::string_view one : choices) known += (known.empty() ? "" : ", ") + std::string(one);
    std::string_view near = nearest(value_.text, choices);
    std::string advice = near.empty() ? "" : "; did you mean " + std::string(near) + "?";
    return fail("expected one of ", known, ", found ", describe(node_), advice);
  }

  std::optional<Value> words() {
    bool plain = !node_.quoted && !node_.expanded;
    if (plain && is_boolean_word(node_.text)) {
      return refuse("a string", ": YAML readers disagree on this word, put it in quotes if it is meant");
    }
    if (plain && key_.type == ValueType::text && looks_like_number(node_.text)) {
      return refuse("a string", ": put it in quotes if it is meant");
    }
    value_.text = node_.text;
    return value_;
  }

  bool within(double given) {
    if (given >= key_.minimum && given <= key_.maximum) return true;
    bool open = std::isinf(key_.maximum);
    std::string range =
        open ? base::text("at least ", bound_text(key_, key_.minimum))
             : base::text(bound_text(key_, key_.minimum), " to ", bound_text(key_, key_.maximum));
    fail(describe(node_), " is out of range: ", range);
    return false;
  }

  const KeySpec& key_;
  const Node& node_;
  const std::string& path_;
  Diagnostics& diagnostics_;
  Value value_;
};

}  // namespace

std::string bound_text(const KeySpec& key, double bound) {
  if (key.type == ValueType::size) return base::size_text(static_cast<std::uint64_t>(bound));
  return number_text(bound);
}

std::string_view to_string(ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return "true or false";
    case ValueType::integer:
      return "an integer";
    case ValueType::number:
      return "a number";
    case ValueType::size:
      return "a size";
    case ValueType::text:
      return "a string";
    case ValueType::token:
      return "a word or number";
    case ValueType::choice:
      return "a word";
    case ValueType::map:
      return "a map";
    case ValueType::list:
      return "a list";
    case ValueType::any:
      return "anything";
  }
  return "";
}

std::string Value::canonical() const {
  switch (type) {
    case ValueType::boolean:
      return boolean ? "true" : "false";
    case ValueType::integer:
      return base::text(integer);
    case ValueType::number:
      return number_text(number);
    case ValueType::size:
      return base::text(size);
    case ValueType::map:
    case ValueType::list:
    case ValueType::any:
      return node == nullptr ? "" : to_yaml(*node);
    default:
      return text;
  }
}

std::optional<Value> read_value(const KeySpec& key, const Node& node, const std::string& path,
                                Diagnostics& diagnostics) {
  return Reading(key, node, path, diagnostics).run();
}

const Value* Values::find(std::string_view name) const {
  auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

bool Values::given(std::string_view name) const {
  const Value* value = find(name);
  return value != nullptr && !value->is_default();
}

const Value& Values::operator[](std::string_view name) const {
  const Value* value = find(name);
  STAGEWIRE_CHECK(value != nullptr, "a key without a default is asked for as if it had one");
  return *value;
}

void Values::put(std::string_view name, Value value) {
  values_.insert_or_assign(std::string(name), std::move(value));
}

}  // namespace stagewire::deploy
