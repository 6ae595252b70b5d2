#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Asks the daemon at `socket` ("": the first of those that a client tries) why operations do not
/// end. A user sees that of all own jobs, an operator of all. Returns a document as of GET
/// /v1/stuck. It waits some seconds at most. Errors: those of CallDaemon.
Result<std::string> FetchStuck(const std::string& socket);

}  // namespace harmonaize
