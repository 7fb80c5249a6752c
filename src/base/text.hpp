// Building messages: text("port ", port, " of ", host).
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include "stagewire/result.hpp"

namespace stagewire::base {

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <typename... Parts>
Error error(ErrorCode code, const Parts&... parts) {
  return Error(code, text(parts...));
}

/// "permission denied (13)" for an errno value.
std::string errno_text(int error_number);

/// `failed` with what was attempted and errno's words: system_error("memfd_create of 4096 bytes").
Error system_error(std::string_view what, int error_number);

/// "512 MiB", "4.5 KiB", "17 bytes".
std::string size_text(std::uint64_t bytes);

}  // namespace stagewire::base
