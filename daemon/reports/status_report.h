#pragma once

#include <sys/types.h>

#include <string>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// What the daemon is doing, as JSON (docs/operator-guide.md lists the fields). The provider (root,
/// or who runs the daemon) sees all tenants, anybody else only what is their own. Engine thread
/// only.
std::string StatusReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
