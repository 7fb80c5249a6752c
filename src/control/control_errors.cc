#include "control/control_errors.hpp"

#include <sys/resource.h>

#include <cerrno>

#include "base/text.hpp"
#include "control/host_address.hpp"

namespace stagewire::control {

Status check_sizes(const ControlOptions& options) {
  if (options.heartbeat_ms >= 0 && options.max_message_size != 0 && options.send_queue != 0) return {};
  return base::error(ErrorCode::invalid_argument, "control plane: heartbeat_ms ", options.heartbeat_ms,
                     ", max_message_size ", options.max_message_size, ", send_queue ", options.send_queue,
                     ": sizes must be above zero and times not below");
}

Error bind_error(const std::string& address, int port, int error_number, std::string_view words) {
  const std::string where = base::text("cannot listen on ", address, " port ", port, ": ");
  if (error_number == EADDRINUSE) {
    const std::string owner = port_owner(address, port);
    return base::error(ErrorCode::conflict, where, "the port is in use by ",
                       owner.empty() ? "a process that cannot be found" : owner,
                       "; choose another port, or 0 for any free one");
  }
  if (error_number == EADDRNOTAVAIL || error_number == ENODEV) {
    return base::error(ErrorCode::invalid_argument, where,
                       "this machine has no such address; choose one of its own, or `auto`");
  }
  if (error_number == EACCES) {
    return base::error(ErrorCode::permission, where,
                       "the system does not allow it; ports below 1024 are for root");
  }
  return base::error(ErrorCode::failed, where, words);
}

Error out_of_descriptors(const std::string& endpoint, std::size_t dial_count, int dial_limit) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return base::error(ErrorCode::exhausted, "cannot call ", endpoint,
                     ": out of sockets or file descriptors with ", dial_count,
                     " peers called already; each takes 4 descriptors of ", files.rlim_cur,
                     " (raise it with `ulimit -n`), and at most ", dial_limit, " peers are possible");
}

Error message_too_large(const std::string& endpoint, std::size_t size, std::size_t limit) {
  return base::error(ErrorCode::too_large, "message of ", size, " bytes to ", endpoint, ": at most ", limit,
                     " are possible");
}

Error answer_too_large(std::size_t size, std::size_t limit) {
  return base::error(ErrorCode::too_large, "answer of ", size, " bytes: at most ", limit, " are possible");
}

Error outbox_full(const std::string& endpoint, std::size_t count) {
  return base::error(ErrorCode::exhausted, "send to ", endpoint, ": ", count,
                     " messages wait already for the connection");
}

Error send_error(const std::string& endpoint, int error_number, std::string_view words,
                 std::size_t queue_limit) {
  if (error_number != EAGAIN) return base::error(ErrorCode::failed, "send to ", endpoint, ": ", words);
  return base::error(ErrorCode::exhausted, "send to ", endpoint, ": ", queue_limit,
                     " messages wait already, the peer does not read them");
}

Error answer_error(int error_number, std::string_view words, std::size_t queue_limit) {
  if (error_number == EAGAIN) {
    return base::error(ErrorCode::exhausted, "answer: ", queue_limit,
                       " messages wait already, the caller does not read them");
  }
  return base::error(ErrorCode::unavailable, "answer: the caller is gone (", words, ")");
}

}  // namespace stagewire::control
