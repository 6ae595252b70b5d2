#pragma once

#include <span>
#include <string_view>

namespace harmonaize::shim {

/// Returns the names of all variables that the library reads, in the order of the alphabet. A check
/// of the tree (scripts/check-environment.py) holds that none is missing.
std::span<const char* const> ParameterNames();

/// Returns the place in ParameterNames of `name`, or nullptr.
const char* const* FindParameter(std::string_view name);

}  // namespace harmonaize::shim
