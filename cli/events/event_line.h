#pragma once

#include <set>
#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// How events are shown to people.
struct EventLineStyle {
  bool tenants = false;  ///< Whether a column names the tenant, for operators.
  bool colours = false;  ///< Whether severities have colours.
  /// The time since 1970, in seconds, by which deadlines have passed or not.
  double now_seconds = 0;
  /// Operators: the tenant that this user is, whose events this user may answer.
  std::string own_tenant = {};
  /// Until when the daemon has said which events can be answered, as events have their times; "":
  /// it has not. Of the events until then those in `answerable` alone can be.
  std::string known_until = {};
  std::set<std::string> answerable = {};  ///< Ids of events.
};

/// Returns the id of the job that an event (CloudEvents 1.0) is about; "": it is about the host.
std::string JobOfEvent(const Json& event);

/// Returns the line above the events.
std::string EventHead(const EventLineStyle& style);

/// Returns an event (CloudEvents 1.0) as one line of text that cannot steer the terminal:
///
///     2026-11-26T08:30:00.123Z  WARN   rank.late  3f9a01c2  ranks/3  rank 3 has not ...
///
/// The columns before the text have the same widths in every line. Behind the text stands the id of
/// what was announced, in brackets, where the event has one. The job is the beginning of its id.
/// What an event lacks is shown as "-".
std::string EventLine(const Json& event, const EventLineStyle& style);

/// Returns a line that says how to answer the event, for below its own line:
///
///         answer with: harmonaize events --acknowledge ID  (or --extend ID --by 10min)
///
/// Returns "" where this user cannot answer: the event asks for nothing, its deadline has passed,
/// it is another tenant's, or the daemon says that it cannot be answered any more.
std::string AnswerLine(const Json& event, const EventLineStyle& style);

}  // namespace harmonaize
