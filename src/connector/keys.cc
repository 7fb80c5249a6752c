// The connector's names: keys, roles, routes.
#include "base/text.hpp"
#include "stagewire/connector.hpp"
#include "wire/messages.hpp"

namespace stagewire {

Result<std::string> make_key(std::string_view key, std::string_view from_stage, std::string_view to_stage) {
  if (key.empty()) return base::error(ErrorCode::invalid_argument, "the key is empty");
  std::string name;
  name.reserve(key.size() + from_stage.size() + to_stage.size() + 2);
  name.append(key).append("@").append(from_stage).append("_").append(to_stage);
  if (name.size() > wire::kMaxKeySize) {
    return base::error(ErrorCode::invalid_argument, "the key has ", name.size(), " bytes with its stages, ",
                       wire::kMaxKeySize, " are allowed");
  }
  return name;
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
