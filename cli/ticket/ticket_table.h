#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the document of GET /v1/jobs/{job}/tickets: a table with a row for each ticket, and how
/// many newcomers wait. Missing fields are shown as "-". Errors: kRemoteError when it is no JSON
/// object.
Result<std::string> TicketTable(std::string_view document);

}  // namespace harmonaize
