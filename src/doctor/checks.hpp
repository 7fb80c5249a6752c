// The checks behind machine_report(), one function for each topic. Each reads facts through its arguments
// where a test has to choose them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stagewire/doctor.hpp"

namespace stagewire::doctor {

/// A soft or hard limit as getrlimit() has it; nullopt = unlimited.
struct Limit {
  std::optional<std::uint64_t> soft;
  std::optional<std::uint64_t> hard;
};

Limit read_limit(int resource);

std::vector<Finding> check_limits(const Limit& open_files, const Limit& locked_memory);

/// `root` is "/" but in tests: where proc/ and sys/ are found.
std::vector<Finding> check_memory(const std::filesystem::path& root);

/// Tries the calls that the pool and the shm backend stand on.
std::vector<Finding> check_kernel();

std::vector<Finding> check_cpu(const std::filesystem::path& root);

/// Where a library was loaded from; nullopt when it is not installed.
using LibraryFinder = std::function<std::optional<std::string>(const char* soname)>;

std::optional<std::string> find_library(const char* soname);

std::vector<Finding> check_libraries(const LibraryFinder& find);

}  // namespace stagewire::doctor
