#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/requirements/requirements.h"

namespace harmonaize {

/// A file of requirements that was read, and checked.
struct CheckedRequirements {
  std::string text;
  RequirementsReading reading;
};

/// Reads and checks a file of requirements; "-" stands for standard input. Errors: those of reading
/// it. Mistakes in it are no error of this function.
Result<CheckedRequirements> CheckRequirementsFile(const std::string& path);

/// Complains of each mistake, and that there may be more where not all are listed.
void ComplainOfMistakes(const std::vector<Status>& mistakes);

}  // namespace harmonaize
