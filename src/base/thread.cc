#include "base/thread.hpp"

#include <sys/resource.h>

#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace stagewire::base {
namespace {

std::string limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return std::to_string(limit.rlim_cur);
}

Error no_thread(std::string_view purpose, const std::system_error& failure) {
  return error(ErrorCode::exhausted, "cannot start ", purpose, ": ", failure.code().message(),
               " (processes and threads of this user: RLIMIT_NPROC ", limit_text(),
               "; raise it with 'ulimit -u', or pids.max of the control group, or end other processes)");
}

}  // namespace

Status start_thread(std::thread& thread, std::string_view purpose, std::function<void()> run) {
  try {
    thread = std::thread(std::move(run));
  } catch (const std::system_error& failure) {
    return no_thread(purpose, failure);
  }
  return {};
}

Status check_threads(std::size_t count) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads(count);
  Status status;
  for (std::size_t i = 0; i < count && status.ok(); ++i) {
    const std::string purpose = text("thread ", i + 1, " of the ", count, " that this needs");
    status = start_thread(threads[i], purpose, [ended] { ended.wait(); });
  }
  end.set_value();
  for (std::thread& thread : threads)
    if (thread.joinable()) thread.join();
  return status;
}

}  // namespace stagewire::base
