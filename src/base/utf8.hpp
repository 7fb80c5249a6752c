#pragma once

#include <string_view>

namespace stagewire::base {

/// Whether the text is UTF-8 as Python decodes it: shortest forms only, no surrogates, nothing above
/// U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace stagewire::base
