#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/events/event_type.h"

namespace harmonaize {

/// One event, as tenants and operators hear it (docs/events.md).
struct Event {
  /// The job's id; "": the event is about this host, and for operators only.
  std::string job = {};
  /// Number of the event among those of its job, from 1 on without gaps; 0: not numbered yet.
  uint64_t sequence = 0;
  EventType type = EventType::kRankLate;
  /// What of the job it is about, such as "ranks/3" or "communicators/tp0"; "": the whole job.
  std::string subject = {};
  int64_t time_ns = 0;  ///< When it happened, in nanoseconds since 1970.
  Severity severity = Severity::kInfo;
  /// When it is of no use any more, in nanoseconds since 1970.
  std::optional<int64_t> expiry_ns = std::nullopt;
  /// A JSON object in UTF-8, with the fields that the type's schema lists.
  std::string data = "{}";

  /// CloudEvents' `id`: "<job>.<sequence>", or "host.<sequence>".
  std::string id() const;
};

/// Job and number that an event's id stands for.
struct EventId {
  std::string job;
  uint64_t sequence = 0;
  auto operator<=>(const EventId&) const = default;
};

/// Returns what an id stands for; nullopt if no event has such an id.
std::optional<EventId> ParseEventId(std::string_view id);

/// Returns the event as CloudEvents 1.0 in structured JSON, in one line.
/// Source: CloudEvents 1.0.2, and its extensions "sequence", "severity" and "expirytime".
std::string ToCloudEvent(const Event& event);

/// Returns a time as RFC 3339 has it, in UTC with microseconds: "2026-11-26T08:30:00.123456Z".
std::string TimeText(int64_t unix_ns);

}  // namespace harmonaize
