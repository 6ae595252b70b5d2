#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/reports/report_sources.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// Returns the jobs that a reader may see, as a list: a tenant sees its own, an operator all. Each
/// is an object with `id`, `name`, `kind`, `began`, `ended`, its `communicators`, each with its
/// ranks and with the operations that wait, those of its communicators that are `forming` at this
/// home, and what its `ended_communicators` have done. A tenant is told neither hosts nor
/// processes, addresses or session numbers. Thread: engine.
nlohmann::json JobReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
