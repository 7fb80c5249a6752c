#include "stagewire/result.hpp"

namespace stagewire {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid argument";
    case ErrorCode::not_found:
      return "not found";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::exhausted:
      return "exhausted";
    case ErrorCode::too_large:
      return "too large";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::permission:
      return "permission denied";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::closed:
      return "closed";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace stagewire
