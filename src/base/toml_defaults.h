#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// The TOML document `text` with those keys of `defaults`, another document, that it lacks, in
/// whatever table they stand. Comments are lost. `name` stands for the first document in errors,
/// which tell where it is malformed.
Result<std::string> WithTomlDefaults(std::string_view text, std::string_view name,
                                     std::string_view defaults);

}  // namespace harmonaize
