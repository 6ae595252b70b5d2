#pragma once

#include <cstddef>
#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Shows a status document's part about the cluster's controller. At the controller these are the
/// jobs of all hosts, the busiest first and at most `rows`; elsewhere, whether its limits are
/// obeyed:
///
///     {"cluster": {"controller": {"address", "here", "follows", "limited_rails", "hosts", "jobs":
///       [{"uid", "communicator", "bytes_per_second", "rails", "held_back_rails", "waited_bursts",
///         "priority", "bandwidth_floor", "bandwidth_cap", "floor"}]}}}
///
/// A communicator has the id that `harmonaize jobs JOB` and `explain` show. Its job is named where
/// it has ranks on this host, since only then the document tells of it:
///
///     {"tenants": [{"communicators": [{"handle", "job", "job_name"}]}]}
///
/// Adds nothing where the cluster has no controller.
void PrintController(const Json& document, size_t rows, std::string* text);

}  // namespace harmonaize
