// Text from a deploy file or a command line, for a terminal.
#pragma once

#include <string>

namespace stagewire::cli {

/// As it is; in quotes, with its control characters escaped, when it has any: they would act on the terminal.
std::string shown(const std::string& text);

}  // namespace stagewire::cli
