// The checks behind machine_report(), one function for each topic. Each reads facts through its arguments
// where a test has to choose them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/host_address.hpp"
#include "stagewire/doctor.hpp"
#include "stagewire/engine.hpp"

namespace stagewire::doctor {

/// A soft or hard limit as getrlimit() has it; nullopt = unlimited.
struct Limit {
  std::optional<std::uint64_t> soft;
  std::optional<std::uint64_t> hard;
};

Limit read_limit(int resource);

std::vector<Finding> check_limits(const Limit& open_files, const Limit& locked_memory);

/// Makes a small pool as a connector would; what its pages are, or why it cannot be had.
Result<std::string> try_pool();

/// `root` is empty but in tests: where /proc and /sys are found.
std::vector<Finding> check_memory(const std::string& root, const Result<std::string>& trial);

/// Without `shm` no pipeline can run on one host; `local` alone serves one process.
std::vector<Finding> check_backends(const std::vector<BackendReport>& backends);

/// What `host: auto` would choose.
std::vector<Finding> check_addresses(const std::vector<control::InterfaceAddress>& candidates,
                                     std::string_view default_interface);

std::vector<Finding> check_kernel();

std::vector<Finding> check_cpu(const std::string& root);

/// Where a library was loaded from; nullopt when it is not installed.
using LibraryFinder = std::function<std::optional<std::string>(const char* soname)>;

std::optional<std::string> find_library(const char* soname);

std::vector<Finding> check_libraries(const LibraryFinder& find);

}  // namespace stagewire::doctor
