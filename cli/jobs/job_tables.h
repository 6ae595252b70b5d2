#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

// Both show a document of the daemon's HTTP interface to people. Missing fields are shown as "-",
// and unknown ones are ignored. Errors: kRemoteError when it is no JSON object.

/// Shows the document of GET /v1/jobs as a table with a row for each job. Tenants and
/// operations have columns where the document tells them; tenants it tells operators alone. The
/// ranks are those of the job's largest communicator.
Result<std::string> JobTable(std::string_view document);

/// Shows the document of GET /v1/jobs/{job}: the job, its communicators with what waits in them and
/// which ranks have left, and the processes of its ranks where the document names them.
Result<std::string> JobDetails(std::string_view document);

}  // namespace harmonaize
