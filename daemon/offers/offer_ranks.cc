#include "daemon/offers/offer_ranks.h"

#include <algorithm>

#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/jobs/job_table.h"
#include "daemon/tenant/session.h"

namespace harmonaize::daemon {

std::vector<uint32_t> OfferRanks::Name(const Job& job, Offer* offer) const {
  const Communicator* const largest = by_job_.Largest(job);
  if (largest == nullptr || !offer->takes_ranks()) return {};
  OfferTerms& terms = offer->terms;
  if (terms.which.empty()) {
    const std::vector<int32_t> here = by_job_.RanksHere(job);
    const auto count = static_cast<size_t>(terms.ranks);
    if (count > here.size() || count > kMostNamedOfferRanks) return {};
    terms.which.assign(here.end() - terms.ranks, here.end());
  }
  offer->communicator = largest->name();
  offer->of_ranks = largest->ranks();
  return SessionsOf(job, terms.which);
}

Offer OfferRanks::Renumbered(const Job& job, const Offer& offer,
                             const std::vector<uint32_t>& sessions) const {
  const Communicator* const largest = by_job_.Largest(job);
  if (largest == nullptr || offer.terms.which.empty()) return offer;
  std::vector<int32_t> now;
  for (const int32_t rank : by_job_.RanksHere(job)) {
    const Member* const member = largest->member(rank);
    const bool is_meant = member != nullptr && std::find(sessions.begin(), sessions.end(),
                                                         member->session->id()) != sessions.end();
    if (is_meant) now.push_back(rank);
  }
  if (now.empty()) return offer;
  Offer next = offer;
  next.terms.which = std::move(now);
  next.communicator = largest->name();
  next.of_ranks = largest->ranks();
  return next;
}

std::vector<uint32_t> OfferRanks::SessionsOf(const Job& job,
                                             const std::vector<int32_t>& ranks) const {
  const Communicator* const largest = by_job_.Largest(job);
  std::vector<uint32_t> sessions;
  for (const int32_t rank : ranks) {
    const Member* const member = largest == nullptr ? nullptr : largest->member(rank);
    if (member != nullptr) sessions.push_back(member->session->id());
  }
  return sessions;
}

}  // namespace harmonaize::daemon
