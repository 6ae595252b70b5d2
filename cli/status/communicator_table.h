#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the daemon's explanation of a communicator as tables for people:
///
///     {"communicator", "name", "ranks", "home", "policy", "fabric",
///      "hosts": [{"host", "ranks": [..], "here"}],
///      "plans": [{"collective", "root", "bytes", PLAN, "bound_seconds",
///                 "measured": {"operations", "bytes", "seconds", "predicted_seconds",
///                              "bound_seconds"},
///                 "candidates": [PLAN], "considered", "not_considered": [{"what", "why"}]}],
///      "sharing": {"priority", "bandwidth_floor", "bandwidth_cap", "floor", "why"},
///      "congestion": {"level", "slowdown"},
///      "history": [{"unix_seconds", "reason", "outcome", "from", "called_off", "took_seconds",
///                   "before": [PLAN], "after": [PLAN]}]}
///     PLAN: "algorithm", "order", "hosts", "groups", "pieces", "paths", "predicted_seconds"
///
/// Without "hosts" all ranks share one. Missing fields are shown as "-". Errors: kRemoteError when
/// it is no JSON object.
Result<std::string> CommunicatorTable(std::string_view document);

/// Shows how its plans have changed, from the same document.
Result<std::string> PlanHistoryTable(std::string_view document);

}  // namespace harmonaize
