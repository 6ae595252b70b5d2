#pragma once

#include <string>
#include <string_view>

namespace harmonaize {

/// The text as a TOML document states it: in quotes, with what would end it or could not be seen
/// escaped. Requires: UTF-8, as all that was read from a TOML document is.
std::string TomlText(std::string_view text);

}  // namespace harmonaize
