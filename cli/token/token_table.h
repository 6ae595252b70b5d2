#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the document of GET /v1/tokens as a table with a row for each token. Missing fields are
/// shown as "-". Errors: kRemoteError when it is no JSON object.
Result<std::string> TokenTable(std::string_view document);

}  // namespace harmonaize
