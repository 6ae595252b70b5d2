#pragma once

#include <string>
#include <vector>

#include "src/requirements/requirement_key.h"

namespace harmonaize {

/// Returns a value that the key may have, as a document has it.
std::string RightValue(const RequirementKey& key);

/// Returns values that the key may not have: of each other type, and beyond its bounds.
std::vector<std::string> WrongValues(const RequirementKey& key);

}  // namespace harmonaize
