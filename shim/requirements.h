#pragma once

#include <memory>

#include "src/client/operation/communicator.h"

namespace harmonaize::shim {

/// Shows, while it is kept, that the requirements of this process are said of a job.
using StatedRequirements = std::shared_ptr<const void>;

/// States what the file of HARMONAIZE_REQUIREMENTS says of the communicator's job, unless this was
/// done and is still kept by another communicator: the daemon forgets it with the job's last one.
/// The communicator keeps the result as long as it lives. Returns nullptr where the variable is not
/// set. Returns nullptr and logs, if the daemon does not take the file: the job runs without, and
/// its next communicator tries again.
StatedRequirements StateRequirementsOfProcess(const Communicator& communicator);

}  // namespace harmonaize::shim
