#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns the TOML document `text`, with added keys that it lacks, in any table, from the document
/// `defaults`. Comments are lost. `name` stands for the first document in errors, which tell where
/// it is malformed.
Result<std::string> WithTomlDefaults(std::string_view text, std::string_view name,
                                     std::string_view defaults);

}  // namespace harmonaize
