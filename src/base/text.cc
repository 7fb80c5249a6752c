#include "base/text.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace stagewire::base {

std::string errno_text(int error_number) {
  std::array<char, 128> buffer{};
  return text(strerror_r(error_number, buffer.data(), buffer.size()), " (errno ", error_number, ")");
}

Error system_error(std::string_view what, int error_number) {
  return error(ErrorCode::failed, what, ": ", errno_text(error_number));
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return text(bytes, " bytes");
  double amount = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (amount >= 1024.0 && unit + 1 < units.size()) {
    amount /= 1024.0;
    ++unit;
  }
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.6g %s", amount, units[unit]);
  return buffer.data();
}

}  // namespace stagewire::base
