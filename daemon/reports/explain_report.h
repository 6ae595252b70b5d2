#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Why operations of a communicator of `ranks` ranks go inline or not, as JSON: what this host was
/// measured to cost and how sure that is, and for each collective and kind of memory the limit and
/// the predicted times by size (docs/operator-guide.md lists the fields). Only the provider learns
/// where that is kept. kInvalidArgument for a number of ranks that no communicator has. Engine
/// thread only.
Result<std::string> ExplainReport(const ReportSources& sources, const Reader& reader, int ranks);

}  // namespace harmonaize::daemon
