#pragma once

#include <string>
#include <string_view>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "src/base/status.h"

namespace harmonaize {

/// Returns whether a text has the form of a whole id, which may be that of a job long gone.
bool IsWholeJobId(std::string_view text);

/// Returns the id of the job that a user means in the document of GET /v1/jobs: by its id, by the
/// beginning of its id, or by its name. Of several jobs of a tenant with that name it is the one
/// that began last. Errors: kUnavailable where there is none; kInvalidUsage where jobs of several
/// tenants have the name, or where several ids begin so.
Result<std::string> FindJobId(const Json& jobs, const std::string& which);

/// Asks the daemon for its jobs and returns FindJobId of them.
Result<std::string> AskForJobId(const DaemonHttp& daemon, const std::string& which);

}  // namespace harmonaize
