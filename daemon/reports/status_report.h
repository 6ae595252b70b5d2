#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// Returns what the daemon is doing, as JSON (docs/operator-guide.md lists the fields). An operator
/// sees all tenants, any other reader only its own tenant. Thread: engine.
std::string StatusReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
