#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/events/event.h"

namespace harmonaize {

/// Which events a subscriber wants to hear.
struct EventFilter {
  /// Names of types without the prefix, or of families ("rank.*"); empty: all.
  std::vector<std::string> types = {};
  /// The job's id; "": all jobs that the subscriber may hear of.
  std::string job = {};
  Severity least_severity = Severity::kInfo;

  bool Takes(const Event& event) const;
};

/// Reads "rank.*,plan.changed", with or without the prefix, and with spaces around the names. ""
/// and
/// "*" stand for all types, which is an empty list. Each name is listed once. Errors:
/// kInvalidArgument names the unknown type and the nearest that exists.
Result<std::vector<std::string>> ParseEventTypes(std::string_view text);

}  // namespace harmonaize
