#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace harmonaize {

/// The types of events (docs/events.md). Their order may change between releases: what is kept or
/// sent has their names.
enum class EventType : uint8_t {
  kCapacityOffered,
  kCapacityWithdrawn,
  kCapacityReclaim,
  kCapacityReclaimed,
  kCapacityForecast,
  kCongestionChanged,
  kLinkDegraded,
  kLinkRestored,
  kRankLate,
  kRankRecovered,
  kRankLost,
  kHostFailing,
  kMaintenanceScheduled,
  kMaintenanceStarted,
  kMaintenanceCompleted,
  kCheckpointAdvised,
  kCheckpointSaved,
  kCheckpointLost,
  kAdaptationAdvised,
  kPlanChanged,
  kRequirementUnmet,
  kRequirementMet,
  kDegradationSuspected,
  kDegradationConfirmed,
  kDegradationCleared,
  kMismatchDetected,
  kPriceChanged,
  kAllocationChanged,
  kPowerLimited,
  kDaemonRestarting,
  kDaemonRestarted,
  kNoticeAnswered,
  kOfferChanged,
};

/// How bad an event is, by the numbers of OpenTelemetry's logs, which CloudEvents' extension takes.
enum class Severity : uint8_t { kInfo = 9, kWarning = 13, kError = 17, kFatal = 21 };

/// Returns "INFO", "WARN", "ERROR" or "FATAL".
const char* SeverityName(Severity severity);
/// Returns the severity of that name, in any case; nullopt if there is none.
std::optional<Severity> SeverityNamed(std::string_view name);
/// Returns the severity of that number; nullopt if there is none.
std::optional<Severity> SeverityNumbered(int64_t number);

/// What all events of a type have in common.
struct EventTypeInfo {
  EventType type;
  std::string_view name;  ///< Without kEventTypePrefix, such as "rank.late".
  Severity severity;      ///< Unless the cause says otherwise.
  std::string_view when;  ///< When it is sent, for people: one sentence.
  /// Version of the schema of its data. It changes when a field goes or changes its meaning; new
  /// fields may come without.
  int schema_version;

  /// The part of the name before the dot, such as "rank".
  std::string_view family() const { return name.substr(0, name.find('.')); }
};

/// Comes before each type's name in CloudEvents.
inline constexpr std::string_view kEventTypePrefix = "io.harmonaize.";

/// All types, in the order of EventType.
std::span<const EventTypeInfo> EventTypes();
const EventTypeInfo& InfoOf(EventType type);
/// Returns whether events of this type ask for something by a time, so that a tenant may
/// acknowledge them or ask for more time. Those that say when something is of no use any more, such
/// as an offer, are answered otherwise.
bool CanBeAnswered(EventType type);
/// Returns the name without kEventTypePrefix, if it has that.
std::string_view WithoutEventTypePrefix(std::string_view name);
/// Returns the type of this name, with or without the prefix; nullopt if there is none.
std::optional<EventType> EventTypeNamed(std::string_view name);
/// Returns CloudEvents' `dataschema`, such as "harmonaize:/v1/schemas/rank.late/1": a URI whose
/// path is where daemons serve the schema.
std::string DataSchemaOf(EventType type);
/// Returns the JSON Schema (2020-12) of the data of a type's events, in one line.
std::string SchemaOf(EventType type);

}  // namespace harmonaize
