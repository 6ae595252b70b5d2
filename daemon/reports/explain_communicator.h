#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// A JSON document about how a communicator's collectives are carried out: what was considered,
/// predicted, chosen, and measured since. By its number or name in the status; of several with the
/// name, the last. Hosts have their names for the provider, for tenants only numbers. Engine thread
/// only. kInvalidArgument if the reader has no such communicator.
Result<std::string> ExplainCommunicator(const ReportSources& sources, const Reader& reader,
                                        const std::string& which);

}  // namespace harmonaize::daemon
