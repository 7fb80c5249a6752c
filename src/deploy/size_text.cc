// Sizes as people write them: "512MiB", "512MB", "0.5GiB", plain bytes.
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "stagewire/deploy.hpp"

namespace stagewire {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ULL << 10U},
    {"MiB", 1ULL << 20U},
    {"GiB", 1ULL << 30U},
    {"TiB", 1ULL << 40U},
    {"KB", 1'000},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

Error not_a_size(std::string_view text, std::string_view why) {
  return base::error(ErrorCode::invalid_argument, "`", text.substr(0, 60), "` is not a size", why,
                     ": write bytes as 536870912, 512MiB (1024s), 512MB (1000s) or 0.5GiB");
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::size_t digits_end = text.find_first_not_of("0123456789.");
  std::string_view digits = text.substr(0, digits_end);
  std::string_view unit_name = digits_end == std::string_view::npos ? "" : text.substr(digits_end);
  if (!unit_name.empty() && unit_name.front() == ' ') unit_name.remove_prefix(1);
  const Unit* unit = nullptr;
  for (const Unit& known : kUnits) {
    if (known.name == unit_name) unit = &known;
  }
  if (digits.empty() || unit == nullptr) return not_a_size(text, "");
  const char* end = digits.data() + digits.size();
  if (digits.find('.') == std::string_view::npos) {
    std::uint64_t count = 0;
    auto [stopped, failure] = std::from_chars(digits.data(), end, count);
    if (failure == std::errc::result_out_of_range || count > UINT64_MAX / unit->bytes) {
      return not_a_size(text, ", it is larger than any memory");
    }
    if (failure != std::errc() || stopped != end) return not_a_size(text, "");
    return count * unit->bytes;
  }
  double value = 0;
  auto [stopped, failure] = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  if (failure != std::errc() || stopped != end) return not_a_size(text, "");
  double bytes = value * static_cast<double>(unit->bytes);
  if (bytes >= 0x1p63) return not_a_size(text, ", it is larger than any memory");
  if (bytes != std::floor(bytes)) return not_a_size(text, ", it is no whole number of bytes");
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace stagewire
