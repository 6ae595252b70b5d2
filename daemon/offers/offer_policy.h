#pragma once

#include <cstdint>
#include <optional>

#include "daemon/offers/offer.h"
#include "daemon/offers/offer_rules.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

/// Returns the answer that a job has given in advance by its [elastic] requirements; nullopt where
/// it wants to be asked, or nothing that may be answered fits it. `size` is the number of the job's
/// ranks on all hosts.
///
/// With offers = "accept" an offer is accepted that leaves the job within [least_ranks,
/// most_ranks], by a multiple of `step`, and that gives at least `notice` before ranks leave. Of
/// places that are too many, or ranks that are, the answer asks for as many as fit; for more
/// notice, it asks for that. What does not fit at all is declined where it may be.
std::optional<OfferAnswer> AnswerInAdvance(const Offer& offer, const ElasticTerms& terms,
                                           int32_t size, double now_seconds);

}  // namespace harmonaize::daemon
