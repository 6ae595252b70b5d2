#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/job_events/job_events.h"
#include "daemon/sources/cloud_notice.h"

namespace harmonaize::daemon {

/// Returns "2026-11-26T08:30:00Z" of a time in seconds since 1970.
std::string MomentText(int64_t unix_seconds);
/// Returns "3 d 4 h", "2 h 5 min", "4 min 7 s" or "9 s": never more than there is.
std::string TimeLeftText(double seconds);

/// Returns the event that tells a job, of which these ranks are on this host, of a notice's present
/// state; nullopt if there is nothing to say. It says nothing of the host. `is_change`: the job has
/// heard of the same notice before, and the text says that something of it has changed.
std::optional<JobEvents::News> NewsOf(const CloudNotice& notice, const std::vector<int32_t>& ranks,
                                      bool is_change = false);

}  // namespace harmonaize::daemon
