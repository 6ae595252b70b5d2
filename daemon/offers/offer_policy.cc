#include "daemon/offers/offer_policy.h"

#include <algorithm>
#include <string>

#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

OfferAnswer Accept() {
  return {.kind = OfferAnswer::Kind::kAccept, .unique = RandomNumber()};
}

std::optional<OfferAnswer> DeclineIfMay(const Offer& offer, std::string reason) {
  if (!offer.can_be_refused) return std::nullopt;
  return OfferAnswer{
      .kind = OfferAnswer::Kind::kDecline, .unique = RandomNumber(), .reason = std::move(reason)};
}

/// Returns the most ranks, up to those of the offer, with which the job keeps its bounds; 0: none.
int32_t RanksThatFit(const Offer& offer, const ElasticTerms& terms, int32_t size) {
  const int64_t room =
      offer.kind == OfferKind::kGrow ? terms.most_ranks - size : size - terms.least_ranks;
  const int64_t fitting = std::min<int64_t>(offer.terms.ranks, room);
  return static_cast<int32_t>(std::max<int64_t>(0, fitting - fitting % terms.step));
}

// A move changes where ranks run, and not how many there are.
std::optional<OfferAnswer> AnswerByTerms(const Offer& offer, const ElasticTerms& terms,
                                         int32_t size, double now_seconds) {
  OfferAnswer::Counter counter;
  const bool changes_size = offer.kind == OfferKind::kGrow || offer.kind == OfferKind::kReclaim;
  if (changes_size) {
    const int32_t fitting = RanksThatFit(offer, terms, size);
    if (fitting == 0) return DeclineIfMay(offer, "it does not fit the job's [elastic]");
    if (fitting != offer.terms.ranks) counter.ranks = fitting;
  }
  const double needed_seconds = now_seconds + terms.notice_seconds;
  if (offer.takes_ranks() && offer.terms.due_seconds < needed_seconds) {
    counter.due_seconds = needed_seconds;
  }
  if (!counter.ranks.has_value() && !counter.due_seconds.has_value()) return Accept();
  return OfferAnswer{.kind = OfferAnswer::Kind::kCounter,
                     .unique = RandomNumber(),
                     .counter = counter,
                     .reason = "what fits the job's [elastic]"};
}

}  // namespace

std::optional<OfferAnswer> AnswerInAdvance(const Offer& offer, const ElasticTerms& terms,
                                           int32_t size, double now_seconds) {
  switch (terms.offers) {
    case ElasticTerms::Offers::kAsk: return std::nullopt;
    case ElasticTerms::Offers::kDecline: return DeclineIfMay(offer, "the job declines all offers");
    case ElasticTerms::Offers::kAccept: return AnswerByTerms(offer, terms, size, now_seconds);
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon
