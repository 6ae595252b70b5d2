#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/identity/tenant_identity.h"
#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

/// Describes the communicators of stock NCCL's that the daemon advises: those with ranks here, of
/// the reader's tenant or of all, and for operators those of which this daemon is the home.
nlohmann::json TuningStatus(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
