// The forms in which the shared CURVE key may be written.
#pragma once

#include <string>
#include <string_view>

#include "stagewire/result.hpp"

namespace stagewire::base {

/// The 40 characters of Z85 that libzmq takes, from those or from 64 hexadecimal digits (what `openssl rand
/// -hex 32` prints). `invalid_argument` else; the error does not repeat the key.
Result<std::string> z85_secret_key(std::string_view key);

}  // namespace stagewire::base
