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

}  // namespace harmonaize
