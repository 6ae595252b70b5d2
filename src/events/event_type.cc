#include "src/events/event_type.h"

#include <fmt/format.h>
#include <strings.h>

#include <array>

namespace harmonaize {
namespace {

using enum EventType;
using enum Severity;

constexpr EventTypeInfo kTypes[] = {
    {kCapacityOffered, "capacity.offered", kInfo, "More ranks can be had.", 1},
    {kCapacityWithdrawn, "capacity.withdrawn", kInfo,
     "Ranks that were offered and not taken can be had no more.", 1},
    {kCapacityReclaim, "capacity.reclaim", kWarning,
     "Ranks will be taken back at the deadline; what they hold is lost then.", 1},
    {kCapacityReclaimed, "capacity.reclaimed", kWarning, "Ranks have been taken back.", 1},
    {kCapacityForecast, "capacity.forecast", kInfo,
     "The forecast of how long ranks are likely to stay has changed.", 1},
    {kCongestionChanged, "congestion.changed", kInfo,
     "Traffic of others slows the job's communication down more, or less, than before.", 1},
    {kLinkDegraded, "link.degraded", kWarning,
     "A connection that communicators use carries less than it should.", 1},
    {kLinkRestored, "link.restored", kInfo,
     "A connection that was degraded carries what it should again.", 1},
    {kRankLate, "rank.late", kWarning,
     "Ranks have kept the others of an operation waiting for longer than late_after.", 1},
    {kRankRecovered, "rank.recovered", kInfo, "Ranks that were late have caught up.", 1},
    {kRankLost, "rank.lost", kError, "Ranks are gone, and do not come back.", 1},
    {kHostFailing, "host.failing", kError,
     "What ranks run on shows signs that it will fail soon, or has begun to fail.", 1},
    {kMaintenanceScheduled, "maintenance.scheduled", kWarning,
     "Maintenance that interrupts ranks has been scheduled, or its time has changed.", 1},
    {kMaintenanceStarted, "maintenance.started", kWarning, "Maintenance has begun.", 1},
    {kMaintenanceCompleted, "maintenance.completed", kInfo,
     "Maintenance is over, or has been called off.", 1},
    {kCheckpointAdvised, "checkpoint.advised", kWarning,
     "A checkpoint now, or within the window, is worth its cost.", 1},
    {kCheckpointSaved, "checkpoint.saved", kInfo,
     "All ranks' parts of a checkpoint are safe at the place that is named.", 1},
    {kCheckpointLost, "checkpoint.lost", kError,
     "A checkpoint could not be stored there, or cannot be read from there any more.", 1},
    {kAdaptationAdvised, "adaptation.advised", kInfo,
     "Another value within the job's [adapt] ranges fits better what the infrastructure gives.", 1},
    {kPlanChanged, "plan.changed", kInfo,
     "Operations of a communicator and size are carried out in another way from now on.", 1},
    {kRequirementUnmet, "requirement.unmet", kWarning,
     "A floor, deadline or objective that was granted is missed.", 1},
    {kRequirementMet, "requirement.met", kInfo, "A requirement that was missed holds again.", 1},
    {kDegradationSuspected, "degradation.suspected", kInfo,
     "The job is slower than it was, and ranks are under suspicion.", 1},
    {kDegradationConfirmed, "degradation.confirmed", kWarning,
     "A test, or further steps, have shown that ranks slow the job down.", 1},
    {kDegradationCleared, "degradation.cleared", kInfo,
     "Ranks that were under suspicion, or slow, are no longer so.", 1},
    {kMismatchDetected, "mismatch.detected", kError,
     "Ranks have asked for different things in the same operation; all of them get an error.", 1},
    {kPriceChanged, "price.changed", kInfo, "What a rank costs has changed.", 1},
    {kAllocationChanged, "allocation.changed", kInfo,
     "The job has more ranks, or fewer, than before.", 1},
    {kPowerLimited, "power.limited", kWarning,
     "A cap on power or frequency takes effect for ranks, or ends.", 1},
    {kDaemonRestarting, "daemon.restarting", kWarning,
     "The communication service will restart at the deadline.", 1},
    {kDaemonRestarted, "daemon.restarted", kInfo, "The communication service runs again.", 1},
    {kNoticeAnswered, "notice.answered", kInfo,
     "The tenant has acknowledged an event that has a deadline, or asks for more time.", 1},
    {kOfferChanged, "offer.changed", kInfo,
     "An offer has been made, answered or changed, or has ended.", 1},
};

/// A row that is out of its type's order would be taken for another type.
constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (static_cast<size_t>(kTypes[i].type) != i) return false;
  }
  return std::size(kTypes) == static_cast<size_t>(kOfferChanged) + 1;
}
static_assert(InOrder());

constexpr Severity kSeverities[] = {kInfo, kWarning, kError, kFatal};

}  // namespace

const char* SeverityName(Severity severity) {
  switch (severity) {
    case kInfo: return "INFO";
    case kWarning: return "WARN";
    case kError: return "ERROR";
    case kFatal: return "FATAL";
  }
  return "INFO";
}

std::optional<Severity> SeverityNamed(std::string_view name) {
  for (const Severity severity : kSeverities) {
    const std::string_view own = SeverityName(severity);
    if (name.size() == own.size() && strncasecmp(name.data(), own.data(), own.size()) == 0) {
      return severity;
    }
  }
  return std::nullopt;
}

std::optional<Severity> SeverityNumbered(int64_t number) {
  for (const Severity severity : kSeverities) {
    if (number == static_cast<int64_t>(severity)) return severity;
  }
  return std::nullopt;
}

std::span<const EventTypeInfo> EventTypes() {
  return kTypes;
}

const EventTypeInfo& InfoOf(EventType type) {
  return kTypes[static_cast<size_t>(type)];
}

bool CanBeAnswered(EventType type) {
  switch (type) {
    case kMaintenanceScheduled:
    case kCapacityReclaim:
    case kHostFailing:
    case kCheckpointAdvised:
    case kDaemonRestarting: return true;
    default: return false;
  }
}

std::string_view WithoutEventTypePrefix(std::string_view name) {
  if (name.starts_with(kEventTypePrefix)) name.remove_prefix(kEventTypePrefix.size());
  return name;
}

std::optional<EventType> EventTypeNamed(std::string_view name) {
  const std::string_view wanted = WithoutEventTypePrefix(name);
  for (const EventTypeInfo& info : kTypes) {
    if (info.name == wanted) return info.type;
  }
  return std::nullopt;
}

std::string DataSchemaOf(EventType type) {
  const EventTypeInfo& info = InfoOf(type);
  return fmt::format("harmonaize:/v1/schemas/{}/{}", info.name, info.schema_version);
}

}  // namespace harmonaize
