// The connector's names: keys, roles, routes.
#include <algorithm>

#include "base/text.hpp"
#include "connector/key_name.hpp"
#include "stagewire/connector.hpp"

namespace stagewire {

Status connector::KeyName::set(std::string_view key, std::string_view from_stage, std::string_view to_stage) {
  if (key.empty()) return base::error(ErrorCode::invalid_argument, "the key is empty");
  size_ = key.size() + from_stage.size() + to_stage.size() + 2;
  if (size_ > bytes_.size()) {
    return base::error(ErrorCode::invalid_argument, "the key has ", size_, " bytes with its stages, ",
                       bytes_.size(), " are allowed");
  }
  char* at = std::copy(key.begin(), key.end(), bytes_.begin());
  *at++ = '@';
  at = std::copy(from_stage.begin(), from_stage.end(), at);
  *at++ = '_';
  std::copy(to_stage.begin(), to_stage.end(), at);
  return {};
}

Result<std::string> make_key(std::string_view key, std::string_view from_stage, std::string_view to_stage) {
  connector::KeyName name;
  if (Status made = name.set(key, from_stage, to_stage); !made) return made.error();
  return std::string(name.text());
}

std::string_view to_string(Role role) {
  switch (role) {
    case Role::sender:
      return "sender";
    case Role::receiver:
      return "receiver";
    case Role::dual:
      return "dual";
  }
  return "unknown";
}

std::string_view to_string(Route route) {
  switch (route) {
    case Route::eager:
      return "eager";
    case Route::lease:
      return "lease";
    case Route::read:
      return "read";
    case Route::write:
      return "write";
  }
  return "unknown";
}

}  // namespace stagewire
