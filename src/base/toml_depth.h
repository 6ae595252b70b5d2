#pragma once

#include <string_view>

namespace harmonaize {

/// Returns how deep a TOML document nests tables and lists, dotted keys and headers included; for a
/// text that is no TOML, any number that is no less than the depth to which a parser would come.
/// Who reads or releases what was parsed calls itself for each level, so this is looked at first.
/// The number may be larger than the depth: a header counts for all that follows.
int TomlDepth(std::string_view text);

}  // namespace harmonaize
