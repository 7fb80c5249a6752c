// Text from outside on its way to a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace stagewire::base {

/// The same text on one line that moves no cursor: control characters (C0, DEL, C1) become \n, \t or \x1b.
/// Everything else stays, bytes that are no UTF-8 included.
std::string printable(std::string_view text);

}  // namespace stagewire::base
