#pragma once

#include "src/client/operation/communicator.h"

namespace harmonaize::shim {

/// States what the file of HARMONAIZE_REQUIREMENTS says of the communicator's job; does nothing
/// where the variable is not set. A daemon that does not take it is logged: the job runs without.
void StateRequirementsOfProcess(const Communicator& communicator);

}  // namespace harmonaize::shim
