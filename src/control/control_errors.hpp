// What the control plane refuses, in words that say what to change (R10, R12, R24).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "control/control_plane.hpp"
#include "stagewire/result.hpp"

namespace stagewire::control {

/// `invalid_argument` for sizes and times that no plane can work with.
Status check_sizes(const ControlOptions& options);

/// `words` are libzmq's for `error_number`, which has numbers beyond the system's; so below.
Error bind_error(const std::string& address, int port, int error_number, std::string_view words);

/// `exhausted`: no socket or file descriptor is left to call `endpoint`, with `dial_count` peers called
/// already of at most `dial_limit`.
Error out_of_descriptors(const std::string& endpoint, std::size_t dial_count, int dial_limit);

/// Of one message; sizes in bytes.
Error message_too_large(const std::string& endpoint, std::size_t size, std::size_t limit);
Error answer_too_large(std::size_t size, std::size_t limit);

/// `exhausted`: that many messages wait already until the connection is up.
Error outbox_full(const std::string& endpoint, std::size_t count);

/// Of a message to the peer that we called; `queue_limit` messages may wait for it.
Error send_error(const std::string& endpoint, int error_number, std::string_view words,
                 std::size_t queue_limit);

/// Of an answer to a caller; `queue_limit` messages may wait for it.
Error answer_error(int error_number, std::string_view words, std::size_t queue_limit);

}  // namespace stagewire::control
