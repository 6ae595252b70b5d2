#pragma once

#include <string>
#include <string_view>

namespace harmonaize {

/// Returns the text as a TOML string: in quotes, with characters escaped that would end it or are
/// invisible. Requires: UTF-8, as all text read from a TOML document is.
std::string TomlText(std::string_view text);

}  // namespace harmonaize
