#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/identity/tenant_identity.h"
#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

/// Describes the processes and communicators on this host that the reader may see, as far as NCCL's
/// RAS has words for them: an object with
///
///     processes       [{pid, ranks}]
///     communicators   [{hash, job, name, size, hosts, ranks_per_host: [least, most], state, ranks,
///                       elsewhere, gone, missing, waiting, result, failure, stuck}]
///     not_listed      how many communicators there are beside these
///
/// `state` is "init", "running" or "abort". `ranks` are those of this host, {rank, pid, device,
/// counts, aborted, leaving}, with `counts` by name of the collective. `elsewhere` lists {rank,
/// host} of ranks of other hosts, `gone` ranks that have left, `missing` ranks for which a
/// communicator waits that forms here. `result` is the NCCL result that the ranks get, 0 for none.
/// Thread: engine.
nlohmann::json RasReport(const ReportSources& sources, const Reader& reader);

}  // namespace harmonaize::daemon
