#pragma once

#include <memory>

#include "daemon/nats/nats_link.h"
#include "daemon/nats/nats_settings.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns a link to NATS servers by libnats, which makes the stream where it is missing. Errors:
/// kInvalidUsage where this daemon was built without that library; what is wrong with the files of
/// the settings.
Result<std::unique_ptr<NatsLink>> MakeNatsLink(NatsSettings settings);

}  // namespace harmonaize::daemon
