#include "daemon/offers/offer_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "src/base/time_text.h"

namespace harmonaize::daemon {
namespace {

using enum OfferState;

std::string WhenText(double seconds) {
  return TimeText(static_cast<int64_t>(seconds) * 1'000'000'000);
}

Offer Changed(Offer offer, OfferState state) {
  offer.state = state;
  ++offer.revision;
  return offer;
}

Offer Ended(const Offer& offer, OfferState state, double now_seconds, std::string reason) {
  Offer ended = Changed(offer, state);
  ended.ended_seconds = now_seconds;
  ended.reason = std::move(reason);
  return ended;
}

Offer BrokenBy(const Offer& offer, OfferParty party, double now_seconds, std::string reason) {
  Offer broken = Ended(offer, kBroken, now_seconds, std::move(reason));
  broken.broken_by = party;
  return broken;
}

// The ranks that leave count from when the offer was made, so that a job that begins early loses
// nothing by it. Those that come count from when both agreed: earlier ones came without the offer.
Offer Agreed(const Offer& offer, const OfferTerms& terms, int32_t ranks_here) {
  Offer agreed = Changed(offer, kAccepted);
  agreed.terms = terms;
  agreed.counter = {};
  if (!agreed.takes_ranks()) agreed.ranks_before = ranks_here;
  return agreed;
}

Status CheckOpen(const Offer& offer, double now_seconds) {
  if (!offer.is_open()) {
    return InvalidUsage("the offer is {} already, so it cannot be answered any more{}{}",
                        NameOf(offer.state), offer.reason.empty() ? "" : ": ", offer.reason);
  }
  if (now_seconds >= offer.deadline_seconds) {
    return InvalidUsage("the deadline, {}, has passed, so the offer cannot be answered any more",
                        WhenText(offer.deadline_seconds));
  }
  return Status::Ok();
}

// A concession is about ranks, time and price. Which ranks they are makes no difference to the
// provider, since all of them are on the host.
bool IsWithinConcession(const Offer& offer, const OfferTerms& asked) {
  const OfferConcession& concession = offer.concession;
  const bool ranks_fit = asked.ranks <= offer.terms.ranks &&
                         asked.ranks >= concession.least_ranks.value_or(offer.terms.ranks);
  const bool time_fits =
      asked.due_seconds <= concession.latest_due_seconds.value_or(offer.terms.due_seconds);
  const bool price_fits = asked.price == offer.terms.price ||
                          (asked.price.has_value() && concession.least_price.has_value() &&
                           *asked.price >= *concession.least_price);
  return ranks_fit && time_fits && price_fits &&
         asked.bytes_per_second == offer.terms.bytes_per_second;
}

Result<Offer> Countered(const Offer& offer, const OfferAnswer& answer, double now_seconds,
                        int32_t ranks_here) {
  if (offer.rounds >= offer.most_rounds) {
    return InvalidUsage(
        "there were {} counter-proposals, which is as many as may be: accept or decline the offer",
        offer.rounds);
  }
  OfferTerms asked = Merged(offer.terms, answer.counter);
  HZ_RETURN_IF_ERROR(CheckTerms(offer.kind, asked, now_seconds));
  if (asked == offer.terms) {
    return InvalidArgument(
        "the counter-proposal asks for nothing else than what is offered: accept that");
  }
  Offer next = IsWithinConcession(offer, asked) ? Agreed(offer, asked, ranks_here)
                                                : Changed(offer, kCountered);
  if (next.state == kCountered) next.counter = std::move(asked);
  ++next.rounds;
  return next;
}

Result<Offer> Declined(const Offer& offer, const OfferAnswer& answer, double now_seconds) {
  if (!offer.can_be_refused) {
    return InvalidUsage(
        "this {} cannot be refused; a counter-proposal may ask for other ranks, or for more time",
        NameOf(offer.kind));
  }
  Offer declined = Ended(offer, kDeclined, now_seconds, answer.reason);
  if (answer.quiet_seconds > 0) {
    declined.quiet_until_seconds = now_seconds + std::min(answer.quiet_seconds, kMostOfferSeconds);
  }
  return declined;
}

Offer Withdrawn(const Offer& offer, double now_seconds, const std::string& reason) {
  if (offer.state == kAccepted && offer.kind == OfferKind::kGrow) {
    return BrokenBy(offer, OfferParty::kProvider, now_seconds,
                    reason.empty() ? "the provider took the places back" : reason);
  }
  return Ended(offer, kWithdrawn, now_seconds, reason);
}

bool HaveLeft(const Offer& offer, int32_t ranks_here) {
  return ranks_here <= offer.RanksAfter();
}

Offer AcceptedAsOf(const Offer& offer, double now_seconds, int32_t ranks_here) {
  const bool is_due = now_seconds >= offer.terms.due_seconds;
  switch (offer.kind) {
    case OfferKind::kReclaim:
    case OfferKind::kMove:
      if (HaveLeft(offer, ranks_here)) return Ended(offer, kFulfilled, now_seconds, {});
      if (is_due && !offer.is_enforced) {
        return BrokenBy(offer, OfferParty::kTenant, now_seconds, "the ranks have not left in time");
      }
      return offer;
    case OfferKind::kGrow:
      if (ranks_here >= offer.RanksAfter()) return Ended(offer, kFulfilled, now_seconds, {});
      if (is_due) {
        return BrokenBy(offer, OfferParty::kTenant, now_seconds, "the ranks have not come in time");
      }
      return offer;
    case OfferKind::kSlowDown: return is_due ? Ended(offer, kFulfilled, now_seconds, {}) : offer;
  }
  return offer;
}

}  // namespace

OfferTerms Merged(const OfferTerms& terms, const OfferAnswer::Counter& counter) {
  OfferTerms merged = terms;
  merged.ranks = counter.ranks.value_or(merged.ranks);
  if (!counter.which.empty()) {
    merged.which = counter.which;
    std::sort(merged.which.begin(), merged.which.end());
    if (!counter.ranks.has_value()) merged.ranks = static_cast<int32_t>(merged.which.size());
  } else if (merged.which.size() != static_cast<size_t>(merged.ranks)) {
    merged.which.clear();
  }
  merged.due_seconds = counter.due_seconds.value_or(merged.due_seconds);
  if (counter.price.has_value()) merged.price = counter.price;
  merged.bytes_per_second = counter.bytes_per_second.value_or(merged.bytes_per_second);
  return merged;
}

Status CheckTerms(OfferKind kind, const OfferTerms& terms, double now_seconds) {
  if (kind == OfferKind::kSlowDown) {
    if (!(terms.bytes_per_second > 0 && terms.bytes_per_second <= kMostOfferRate)) {
      return InvalidArgument("a slow_down names a rate above 0, of at most {:.0f} bytes per second",
                             kMostOfferRate);
    }
  } else if (terms.ranks < 1 || terms.ranks > kMostOfferedRanks) {
    return InvalidArgument("an offer is of 1 to {} ranks, not of {}", kMostOfferedRanks,
                           terms.ranks);
  }
  if (!terms.which.empty()) {
    if (kind == OfferKind::kGrow) return InvalidArgument("ranks that are to come have no numbers");
    if (terms.which.size() > kMostNamedOfferRanks) {
      return InvalidArgument("at most {} ranks are named one by one", kMostNamedOfferRanks);
    }
    if (terms.which.size() != static_cast<size_t>(terms.ranks)) {
      return InvalidArgument("{} ranks are named, and {} are meant", terms.which.size(),
                             terms.ranks);
    }
    const bool all_differ = std::adjacent_find(terms.which.begin(), terms.which.end(),
                                               std::greater_equal<>()) == terms.which.end();
    if (!all_differ || terms.which.front() < 0) {
      return InvalidArgument("the ranks that are named are different numbers from 0 on");
    }
  }
  if (terms.due_seconds <= now_seconds || terms.due_seconds > now_seconds + 2 * kMostOfferSeconds) {
    return InvalidArgument("what is due at {} is to be due after now, and within {:.0f} days",
                           WhenText(terms.due_seconds), 2 * kMostOfferSeconds / 86400);
  }
  if (terms.price.has_value() && !(*terms.price >= 0 && *terms.price <= kMostOfferPrice)) {
    return InvalidArgument("a price is from 0 to {:.0f} credits", kMostOfferPrice);
  }
  return Status::Ok();
}

Offer AsOf(const Offer& offer, double now_seconds, int32_t ranks_here) {
  if (offer.has_ended()) return offer;
  if (offer.state == kAccepted) return AcceptedAsOf(offer, now_seconds, ranks_here);
  if (!offer.can_be_refused) {
    if (HaveLeft(offer, ranks_here)) return Ended(offer, kFulfilled, now_seconds, {});
    if (now_seconds < offer.terms.due_seconds || offer.is_enforced) return offer;
    return BrokenBy(offer, OfferParty::kTenant, now_seconds, "the ranks have not left in time");
  }
  if (now_seconds >= offer.deadline_seconds) return Ended(offer, kExpired, now_seconds, {});
  return offer;
}

bool IsToBeEnforced(const Offer& offer, double now_seconds, int32_t ranks_here) {
  const bool holds = offer.state == kAccepted || (offer.is_open() && !offer.can_be_refused);
  return holds && offer.is_enforced && offer.takes_ranks() &&
         now_seconds >= offer.terms.due_seconds && !HaveLeft(offer, ranks_here);
}

Result<Offer> WithAnswer(const Offer& offer, const OfferAnswer& answer, double now_seconds,
                         int32_t ranks_here) {
  if (answer.unique != 0 && answer.unique == offer.last_answer) return offer;
  const bool accepts = answer.kind == OfferAnswer::Kind::kAccept;
  if (accepts && (offer.state == kAccepted || offer.state == kFulfilled)) return offer;
  HZ_RETURN_IF_ERROR(CheckOpen(offer, now_seconds));
  if (answer.revision != 0 && answer.revision != offer.revision) {
    return InvalidUsage(
        "the offer has changed since you read it: it is at revision {} now, and not at {}; read it "
        "again",
        offer.revision, answer.revision);
  }
  Result<Offer> next = offer;
  switch (answer.kind) {
    case OfferAnswer::Kind::kAccept: next = Agreed(offer, offer.terms, ranks_here); break;
    case OfferAnswer::Kind::kDecline: next = Declined(offer, answer, now_seconds); break;
    case OfferAnswer::Kind::kCounter:
      next = Countered(offer, answer, now_seconds, ranks_here);
      break;
  }
  HZ_RETURN_IF_ERROR(next.status());
  next->last_answer = answer.unique;
  if (!next->has_ended()) next->reason = answer.reason;
  return AsOf(*next, now_seconds, ranks_here);
}

Result<Offer> WithStep(const Offer& offer, const OfferStep& step, double now_seconds,
                       int32_t ranks_here) {
  if (offer.has_ended()) {
    return InvalidUsage("the offer is {}, so nothing of it can be changed any more",
                        NameOf(offer.state));
  }
  if (step.kind == OfferStep::Kind::kWithdraw) return Withdrawn(offer, now_seconds, step.reason);
  HZ_RETURN_IF_ERROR(CheckOpen(offer, now_seconds));
  const bool answers_counter = step.kind != OfferStep::Kind::kPropose;
  if (answers_counter && offer.state != kCountered) {
    return InvalidUsage("the tenant has made no counter-proposal that could be taken or refused");
  }
  if (step.kind == OfferStep::Kind::kTake) {
    if (now_seconds >= offer.counter.due_seconds) {
      return InvalidUsage(
          "the counter-proposal was for a time that has passed, {}: keep to the offer, or propose "
          "other terms",
          WhenText(offer.counter.due_seconds));
    }
    return AsOf(Agreed(offer, offer.counter, ranks_here), now_seconds, ranks_here);
  }
  Offer next = Changed(offer, kOffered);
  next.counter = {};
  next.reason = step.reason;
  if (step.kind == OfferStep::Kind::kPropose) {
    HZ_RETURN_IF_ERROR(CheckTerms(offer.kind, step.terms, now_seconds));
    next.terms = step.terms;
    next.deadline_seconds =
        std::min(step.deadline_seconds.value_or(offer.deadline_seconds), next.terms.due_seconds);
    if (next.deadline_seconds <= now_seconds) {
      return InvalidArgument("{} has passed, so nobody could answer until then",
                             WhenText(next.deadline_seconds));
    }
  }
  return next;
}

Offer AfterForce(const Offer& offer, double now_seconds) {
  if (offer.state == kAccepted) {
    return BrokenBy(offer, OfferParty::kTenant, now_seconds,
                    "the ranks had not left in time, and were ended");
  }
  return Ended(offer, kFulfilled, now_seconds, "nobody had answered, and the ranks were ended");
}

Offer AfterJob(const Offer& offer, double now_seconds) {
  if (offer.has_ended()) return offer;
  if (offer.takes_ranks()) return Ended(offer, kFulfilled, now_seconds, "the job has ended here");
  return Ended(offer, kWithdrawn, now_seconds, "the job has ended here");
}

}  // namespace harmonaize::daemon
