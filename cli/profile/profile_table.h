#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the document of GET /v1/profiles to people: a row for each job. Missing fields are shown
/// as
/// "-". Errors: kRemoteError for text that is no JSON object.
Result<std::string> ProfileList(std::string_view document);

/// Shows the document of GET /v1/jobs/{job}/profile: a table for each communicator. Errors:
/// likewise.
Result<std::string> ProfileTable(std::string_view document);

}  // namespace harmonaize
