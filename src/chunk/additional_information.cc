#include <algorithm>

#include "chunk/copied_value.hpp"
#include "stagewire/chunk_queues.hpp"

namespace stagewire {
namespace {

bool same_key(const Value& a, const Value& b) {
  const auto* text_a = a.get_if<std::string_view>();
  const auto* text_b = b.get_if<std::string_view>();
  if (text_a != nullptr && text_b != nullptr) return *text_a == *text_b;
  const auto* number_a = a.get_if<std::int64_t>();
  const auto* number_b = b.get_if<std::int64_t>();
  return number_a != nullptr && number_b != nullptr && *number_a == *number_b;
}

bool is_text(const Value& key, std::string_view text) {
  const auto* name = key.get_if<std::string_view>();
  return name != nullptr && *name == text;
}

Value& entry_of(Value::Map& map, const Value& key) {
  const auto known =
      std::find_if(map.begin(), map.end(), [&](const auto& entry) { return same_key(entry.first, key); });
  return known != map.end() ? known->second : map.emplace_back(key, Value()).second;
}

void merge_entry(Value& target, const Value& key, const Value& entry) {
  const auto* entries = entry.get_if<Value::Map>();
  if (entries == nullptr) {
    target = entry;
    return;
  }
  if (target.get_if<Value::Map>() == nullptr) target = Value(Value::Map{});
  auto& merged = *target.get_if<Value::Map>();
  for (const auto& [name, item] : *entries) {
    // The end of the request is the adapter's to tell.
    if (is_text(key, "meta") && is_text(name, "finished")) continue;
    entry_of(merged, name) = item;
  }
}

}  // namespace

// Two copies in turn, since the new one is made of the old one.
struct AdditionalInformation::Merged {
  chunk::CopiedValue copies[2];
  std::size_t current = 0;
};

AdditionalInformation::AdditionalInformation() = default;
AdditionalInformation::AdditionalInformation(AdditionalInformation&&) noexcept = default;
AdditionalInformation& AdditionalInformation::operator=(AdditionalInformation&&) noexcept = default;
AdditionalInformation::~AdditionalInformation() = default;

const Value& AdditionalInformation::value() const {
  return is_merged_ ? merged_->copies[merged_->current].value() : chunk_.payload;
}

void AdditionalInformation::replace(Chunk chunk) {
  is_merged_ = false;
  chunk_ = std::move(chunk);
}

Status AdditionalInformation::merge(const Value& payload) {
  Value all = value().is_none() ? Value(Value::Map{}) : value();
  const auto* entries = payload.get_if<Value::Map>();
  auto* merged = all.get_if<Value::Map>();
  if (entries == nullptr || merged == nullptr) {
    return Error(ErrorCode::invalid_argument, "what is merged into additional information is no map");
  }
  for (const auto& [key, entry] : *entries) merge_entry(entry_of(*merged, key), key, entry);
  if (!merged_) merged_ = std::make_unique<Merged>();
  const std::size_t next = 1 - merged_->current;
  if (Status copied = merged_->copies[next].assign(all); !copied) return copied;
  merged_->current = next;
  is_merged_ = true;
  chunk_ = Chunk();
  return {};
}

void AdditionalInformation::clear() {
  is_merged_ = false;
  chunk_ = Chunk();
}

}  // namespace stagewire
