#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns, as JSON, why operations of a communicator of `ranks` ranks go inline or not: the
/// measured costs of this host and how sure they are, and for each collective and kind of memory
/// the limit and the predicted times by size (docs/operator-guide.md lists the fields). Only the
/// provider learns where the costs are kept. Returns kInvalidArgument for a number of ranks that no
/// communicator has. Thread: engine.
Result<std::string> ExplainReport(const ReportSources& sources, const Reader& reader, int ranks);

}  // namespace harmonaize::daemon
