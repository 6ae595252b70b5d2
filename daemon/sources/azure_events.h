#pragma once

#include <string>
#include <string_view>

#include "daemon/sources/published_notices.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Translates Azure's document of scheduled events. Azure shows every machine of an availability
/// set or scale set the events of all of them; those that do not name `host` among their resources
/// are left out. Errors: kRemoteError for a text that is no such document.
///
/// Freeze, Reboot and Redeploy are maintenance, of which processes survive a Freeze. Preempt and
/// Terminate reclaim the host. Azure calls no event over: it leaves it out of the document.
Result<PublishedNotices> ReadAzureEvents(std::string_view document, const std::string& host);

/// Returns the body of the request that lets Azure begin with an event at once.
std::string AzureApproval(const std::string& event_id);

}  // namespace harmonaize::daemon
