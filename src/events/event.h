#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/events/event_type.h"

namespace harmonaize {

/// One event, as tenants and operators hear it (docs/events.md).
struct Event {
  /// The job's id (IsJobId); "": the event is about this host, and for operators only.
  std::string job = {};
  /// Tells the event from all others of its job, at all hosts; random, but not 0.
  uint64_t unique = 0;
  /// Number of the event among those of its job at the daemon that tells it, from 1 on without
  /// gaps; 0: not numbered yet.
  uint64_t sequence = 0;
  EventType type = EventType::kRankLate;
  /// What of the job it is about, such as "ranks/3" or "communicators/tp0"; "": the whole job.
  std::string subject = {};
  int64_t time_ns = 0;  ///< When it happened, in nanoseconds since 1970.
  Severity severity = Severity::kInfo;
  /// When it is of no use any more, in nanoseconds since 1970.
  std::optional<int64_t> expiry_ns = std::nullopt;
  /// A JSON object in UTF-8 and in one line, with the fields that the type's schema lists
  /// (EventData makes it).
  std::string data = "{}";
  /// Name of the job's tenant, in what operators hear; "" in what the tenant hears.
  std::string tenant = {};

  /// CloudEvents' `id`: "<job>.<unique>", or "host.<unique>", with 16 hexadecimal digits. It is the
  /// same at all daemons.
  std::string id() const;
};

/// Longest id of a job, in bytes. It bounds what each event takes in logs and URIs; an id is far
/// shorter where it is made of a name and a number.
inline constexpr size_t kMostJobIdBytes = 128;
/// Longest name of a tenant, in bytes: the path of a container's control group is the longest.
inline constexpr size_t kMostTenantBytes = 512;
/// Longest subject of an event, in bytes: the longest name of a communicator and a word before it.
inline constexpr size_t kMostSubjectBytes = 512;
/// Largest data of an event, in bytes. The longest lists that event_fields.h allows fit.
inline constexpr size_t kMostEventDataBytes = 48 << 10;
/// Largest number of an event: all readers of JSON keep it exactly.
inline constexpr uint64_t kMostSequence = uint64_t{1} << 53;

/// Returns whether a text can be a job's id: 1 to kMostJobIdBytes letters, digits, '-', '_', '.'
/// and '~', which stand in a URI as they are. "host" is none, since the host's events have that
/// name in their ids.
bool IsJobId(std::string_view text);

/// Returns an error unless the event can be kept and sent: its job is an id or "", it has a number,
/// and subject and data are within their limits. Errors: kInvalidArgument.
Status CheckEvent(const Event& event);

/// What an event's id stands for.
struct EventId {
  std::string job;
  uint64_t unique = 0;
  auto operator<=>(const EventId&) const = default;
};

/// Returns what an id stands for; nullopt if no event has such an id.
std::optional<EventId> ParseEventId(std::string_view id);

/// Returns the event as CloudEvents 1.0 in structured JSON, in one line. Bytes of the subject that
/// are not UTF-8 are replaced, and data that is not a JSON object in one line becomes an empty one.
/// Source: CloudEvents 1.0.2, and its extensions "sequence", "severity" and "expirytime".
std::string ToCloudEvent(const Event& event);

}  // namespace harmonaize
