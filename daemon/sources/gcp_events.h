#pragma once

#include <string_view>

#include "daemon/sources/published_notices.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Each reads one value that GCP shows a machine below /computeMetadata/v1/instance. GCP gives
// neither ids nor times. Errors: kRemoteError for a value that is not known.

/// Reads maintenance-event. Processes survive a migration; a termination is maintenance as well,
/// since GCP starts the machine again after it. GCP tells a maintenance that was called off from
/// one that is over no more than by the value NONE, which is taken for the latter.
Result<PublishedNotices> ReadGcpMaintenance(std::string_view value);

/// Reads preempted. GCP ends the machine 30 seconds after the value has become TRUE.
Result<PublishedNotices> ReadGcpPreempted(std::string_view value);

}  // namespace harmonaize::daemon
