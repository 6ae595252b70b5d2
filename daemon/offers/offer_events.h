#pragma once

#include <cstdint>
#include <vector>

#include "daemon/job_events/job_events.h"
#include "daemon/offers/offer.h"

namespace harmonaize::daemon {

/// The job of an offer, as far as events tell of it.
struct OfferedJob {
  std::vector<int32_t> ranks_here = {};  ///< On the host of the offer.
  int32_t size = 0;                      ///< Ranks on all hosts; 0: not known.
};

/// Returns the events that tell a job of a change of an offer, which was `before` and is `after`
/// now: what has become of it (offer.changed), and what that means for the job's ranks. `before`
/// is nullptr for an offer that is new.
std::vector<JobEvents::News> NewsOf(const Offer* before, const Offer& after, const OfferedJob& job);

/// Returns what an offer asks or gives, in a sentence for people, such as "2 more ranks can be
/// had".
std::string OfferSentence(const Offer& offer, const OfferTerms& terms);

}  // namespace harmonaize::daemon
