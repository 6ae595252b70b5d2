#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns the id of a communicator in the daemon's status, as `harmonaize jobs` and events show
/// it; of an older daemon, which does not tell it, the number.
std::string CommunicatorIdOf(const Json& communicator);

/// Returns the name of the communicator's job; the beginning of its id, if it has none.
std::string JobLabelOf(const Json& communicator);

}  // namespace harmonaize
