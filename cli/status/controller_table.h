#pragma once

#include <cstddef>
#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// What a status document says of the cluster's controller: at the controller the jobs of all
/// hosts, the busiest first and at most so many, elsewhere whether its word is heeded:
///
///     {"cluster": {"controller": {"address", "here", "follows", "limited_rails", "hosts", "jobs":
///       [{"uid", "communicator", "bytes_per_second", "rails", "held_back_rails"}]}}}
///
/// Adds nothing where the cluster has no controller.
void PrintController(const Json& document, size_t rows, std::string* text);

}  // namespace harmonaize
