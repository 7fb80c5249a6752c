// Threads whose start may fail, as every system call may.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <thread>

#include "stagewire/result.hpp"

namespace stagewire::base {

/// Starts `run` in `thread`, which must not be one yet. `exhausted` names the limit that is in the way, and
/// the command that raises it; `purpose` as in "the thread that listens to the pipeline".
Status start_thread(std::thread& thread, std::string_view purpose, std::function<void()> run);

/// Whether `count` threads can be had beside those that there are: starts them, and ends them again. For
/// libraries that abort the process when they are refused one. Others may take what was free meanwhile.
Status check_threads(std::size_t count);

}  // namespace stagewire::base
