#pragma once

#include <sys/types.h>

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// Returns what the daemon is doing, as text in JSON (docs/operator-guide.md lists the fields). An
/// operator sees all tenants, any other reader only its own tenant. Thread: engine.
std::string StatusReport(const ReportSources& sources, const Reader& reader);

// The parts of that document.

/// Describes the daemon itself; to an operator also its workers and its transport.
nlohmann::json DaemonStatus(const ReportSources& sources, const Reader& reader);
/// Lists the tenants that the reader may see, with all that they hold and run.
nlohmann::json TenantsStatus(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
