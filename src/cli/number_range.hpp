// A range for options that are numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stagewire::cli {

/// Like CLI::Range, but "nan" is in no range.
inline CLI::Validator number_between(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= low && value <= high) return "";
    return text + " is no number from " + CLI::detail::to_string(low) + " to " + CLI::detail::to_string(high);
  };
  return {check, "FLOAT in [" + CLI::detail::to_string(low) + " - " + CLI::detail::to_string(high) + "]", ""};
}

}  // namespace stagewire::cli
