#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/access/engine_rooms.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

struct Job;

/// Returns the job with an id or a name that a caller has given: one of the tenant with
/// TenantIdentity::number or, for operators (nullopt), of any. Of several of one tenant it is the
/// one that began last. Errors: kUnavailable if there is none; kInvalidUsage if several tenants
/// have one. Thread: engine.
Result<Job*> NamedJob(EngineRooms& rooms, std::optional<uint32_t> tenant, const std::string& which);

}  // namespace harmonaize::daemon
