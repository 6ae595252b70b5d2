#pragma once

#include <string>
#include <string_view>

#include "cli/json_view.h"
#include "src/base/status.h"

namespace harmonaize {

/// Returns the answer of GET /v1/offers as a table for people. Errors: those of ParseDocument.
Result<std::string> OfferTable(std::string_view document);

/// Returns one offer in a line, as "offer-3f9a...: reclaim of 2 ranks (1, 3), accepted, due ...".
std::string OfferLine(const Json& offer);

}  // namespace harmonaize
