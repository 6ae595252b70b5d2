#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/job_report.h"
#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

/// Describes, for each job that the reader may see, what each rank of this host has posted and what
/// of that has not ended: an array, in no order. Operations that have ended are counted and not
/// listed, and so are those that the ranks carry out themselves. Thread: engine.
nlohmann::json FlightReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
