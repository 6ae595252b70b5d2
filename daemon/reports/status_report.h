#pragma once

#include <sys/types.h>

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// Returns what the daemon is doing (docs/operator-guide.md lists the fields). An operator sees all
/// tenants, any other reader only its own tenant. Thread: engine.
nlohmann::json StatusDocument(const ReportSources& sources, const Reader& reader);
/// Returns the same as text.
std::string StatusReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
