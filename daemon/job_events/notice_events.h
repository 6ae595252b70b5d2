#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/job_events/job_events.h"
#include "daemon/sources/cloud_notice.h"

namespace harmonaize::daemon {

/// Returns the event that tells a job, of which these ranks are on this host, of a notice's present
/// state; nullopt if there is nothing to say. It says nothing of the host.
std::optional<JobEvents::News> NewsOf(const CloudNotice& notice, const std::vector<int32_t>& ranks);

}  // namespace harmonaize::daemon
