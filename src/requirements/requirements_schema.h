#pragma once

#include <string>

namespace harmonaize {

/// Returns the JSON Schema (2020-12) of a document of requirements, as JSON that TOML's values map
/// to: for editors, and for people. A value with a unit is a text there; that it is in its bounds,
/// and what values may not be said together, only ParseRequirements knows.
std::string RequirementsSchema();

}  // namespace harmonaize
