#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Shows the communicators of stock NCCL's whose tuners a daemon advises, of its status document:
///
///     {"nccl_tuning": {"here": [{"communicator", "user", "ranks", "ranks_here", "changes"}],
///                      "home": [{"communicator", "user", "ranks", "known_ranks", "changes",
///                                "largest_factor", "stays_as_it_is"}]}}
///
/// Missing fields are shown as "-"; adds nothing if there are none.
void PrintTuning(const Json& status, std::string* text);

}  // namespace harmonaize
