#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns a JSON document about how a communicator's collectives are carried out: which plans were
/// considered, predicted and chosen, and what was measured since. `which` is its number or name in
/// the status; of several with the name, the last is described. Hosts have their names for the
/// provider, for tenants only numbers. Returns kInvalidArgument if the reader has no such
/// communicator. Thread: engine.
Result<std::string> ExplainCommunicator(const ReportSources& sources, const Reader& reader,
                                        const std::string& which);

}  // namespace harmonaize::daemon
