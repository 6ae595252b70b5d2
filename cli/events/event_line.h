#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// How events are shown to people.
struct EventLineStyle {
  bool tenants = false;  ///< Whether a column names the tenant, for operators.
  bool colours = false;  ///< Whether severities have colours.
};

/// Returns the line above the events.
std::string EventHead(const EventLineStyle& style);

/// Returns an event (CloudEvents 1.0) as one line of text that cannot steer the terminal:
///
///     2026-11-26T08:30:00.123Z  WARN   rank.late  3f9a01c2  ranks/3  rank 3 has not ...
///
/// The columns before the text have the same widths in every line. The job is the beginning of its
/// id. What an event lacks is shown as "-".
std::string EventLine(const Json& event, const EventLineStyle& style);

}  // namespace harmonaize
