#include "cli/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "cli/commands.hpp"

namespace stagewire::cli {

bool open_missing_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one: those below are open.
    if (::open("/dev/null", O_RDWR) != fd) return false;
  }
  return true;
}

int finish_output(int status) {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return status;
  std::fprintf(stderr, "stagewire: error: writing to the standard output: %s\n",
               failed_before ? "a part of it could not be written" : std::strerror(errno));
  return status == 0 ? kRunError : status;
}

}  // namespace stagewire::cli
