#pragma once

#include <nlohmann/json.hpp>

#include "daemon/access/engine_rooms.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/job_events/announcements.h"
#include "daemon/promises/promise.h"

namespace harmonaize::daemon {

/// Returns a time in seconds since 1970 as text; null for 0.
nlohmann::json TimeOrNull(double unix_seconds);

/// Returns a notice as operators read it.
nlohmann::json Describe(const CloudNotice& notice);
/// Returns an active notice with the answers of the jobs that were told. Thread: engine.
nlohmann::json DescribeWithAnswers(EngineRooms& rooms, const Announcements::Active& active);
/// Returns what a tenant may read of an event with a deadline and its answer.
nlohmann::json DescribeAnswer(const ToldNotice& told);
/// Returns the promises of this host with the jobs that were told, for operators; or, where
/// `tenant` is given, those alone of which its jobs were told, and of these its own; and the ids of
/// the events that can be answered now. Thread: engine.
nlohmann::json PromisesDocument(EngineRooms& rooms, const TenantIdentity* tenant);
/// Returns whether the daemon drains, and what it waits for. Thread: engine.
nlohmann::json DrainDocument(EngineRooms& rooms);

}  // namespace harmonaize::daemon
