#pragma once

#include <string>
#include <vector>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns a line about a communicator whose data stock NCCL carries, "cuda (stock NCCL): 120
/// calls, 3.2 GiB, 4 ms inside them, as its ranks here say"; none for another.
std::vector<std::string> StockNcclNote(const Json& communicator);

}  // namespace harmonaize
