#pragma once

#include <string>
#include <vector>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns a line for each of the first operations of a communicator that have waited for a second,
/// and one that counts the others: "AllReduce #7 has waited 12 s for ranks 1, 3".
std::vector<std::string> WaitingNotes(const Json& communicator);

}  // namespace harmonaize
