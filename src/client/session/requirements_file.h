#pragma once

#include <string>

#include "src/base/status.h"
#include "src/requirements/requirements.h"

namespace harmonaize {

/// What HARMONAIZE_REQUIREMENTS says of this process's job.
struct ProcessRequirements {
  std::string text = {};  ///< The file; "": the variable is not set.
  Requirements requirements = {};
};

/// Returns what the file says, which is opened and read once, at the first call. Errors:
/// kInvalidArgument, with file, line and column, for a file with a mistake; those of ReadSmallFile
/// for one that cannot be read. Thread: any.
const Result<ProcessRequirements>& RequirementsOfProcess();

/// Reads a file of requirements that a user has named. It may be of any kind: nothing is waited
/// for, and no more is read than a document may have.
Result<ProcessRequirements> ReadRequirementsFile(const std::string& path);

}  // namespace harmonaize
