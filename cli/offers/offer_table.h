#pragma once

#include <string>
#include <string_view>

#include "cli/json_view.h"
#include "src/base/status.h"

namespace harmonaize {

/// Returns the answer of GET /v1/offers as a table for people, with what its reader can do about
/// each offer. Errors: those of ParseDocument.
Result<std::string> OfferTable(std::string_view document);

/// Returns those of a list of offers that the parties have agreed on, or that were carried out
/// without an answer.
Json AgreedOffers(const Json& offers);

/// Returns a table of AgreedOffers, and whether what was agreed was kept; "" where there are none.
std::string AgreedOfferTable(const Json& offers);

/// Returns one offer in a line, as "offer-3f9a...: reclaim of 2 ranks (1, 3), accepted, due ...".
std::string OfferLine(const Json& offer);

}  // namespace harmonaize
