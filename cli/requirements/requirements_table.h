#pragma once

#include <string>

#include "src/requirements/requirements.h"

namespace harmonaize {

/// Returns what a document says, a line for each key, in the order of the documentation.
std::string RequirementsTable(const Requirements& requirements);

/// Returns the same with each key's meaning, and what follows from it.
std::string RequirementsExplained(const Requirements& requirements);

/// Returns all keys there are, each with its values and its meaning.
std::string AllRequirementKeys();

/// Returns the same as JSON. Names in the lists are those within an entry of
/// [[collectives.override]] and [[market.launch]]:
///
///     {"keys": [{"name", "values", "meaning", "kept_only"}], "override_keys": [...],
///      "launch_keys": [...]}
std::string AllRequirementKeysAsJson();

}  // namespace harmonaize
