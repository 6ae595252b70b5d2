#include "daemon/offers/offer_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/job_events/notice_events.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

using enum OfferState;

int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds) * 1'000'000'000;
}

std::string WhomText(const OfferTerms& terms) {
  return terms.which.empty() ? CountedRanks(terms.ranks) : RankList(terms.which);
}

std::string PriceText(const OfferTerms& terms) {
  if (!terms.price.has_value()) return {};
  return fmt::format(", at {:g} credits for a rank and an hour", *terms.price);
}

std::string UntilText(double seconds) {
  return MomentText(static_cast<int64_t>(seconds));
}

/// Returns what has become of the offer, as the second half of a sentence.
std::string StateText(const Offer& offer) {
  switch (offer.state) {
    case kOffered: return fmt::format("answer until {}", UntilText(offer.deadline_seconds));
    case kCountered:
      return fmt::format("the job asks for something else: {}",
                         OfferSentence(offer, offer.counter));
    case kAccepted: return "accepted";
    case kDeclined: return "declined";
    case kExpired: return "nobody agreed before the deadline";
    case kWithdrawn: return "withdrawn";
    case kFulfilled: return "done";
    case kBroken: return fmt::format("broken by the {}", NameOf(offer.broken_by));
  }
  return {};
}

const char* ActionFor(const Offer& offer) {
  if (offer.state == kOffered) return offer.takes_ranks() ? "checkpoint_and_leave" : "accept";
  if (offer.state != kAccepted) return "none";
  if (offer.takes_ranks()) return "checkpoint_and_leave";
  return offer.kind == OfferKind::kGrow ? "grow" : "adapt";
}

JobEvents::News Changed(const Offer& offer) {
  const OfferTerms& terms = offer.state == kCountered ? offer.counter : offer.terms;
  std::string text = OfferSentence(offer, offer.terms) + ": " + StateText(offer);
  if (!offer.reason.empty()) text += ", " + offer.reason;
  EventData data(EventType::kOfferChanged, text);
  data.Set(fields::kOffer, offer.id)
      .Set(fields::kKind, NameOf(offer.kind))
      .Set(fields::kState, NameOf(offer.state))
      .Set(fields::kRankCount, static_cast<uint64_t>(terms.ranks))
      .Set(fields::kDeadline, Nanoseconds(offer.deadline_seconds))
      .Set(fields::kDue, Nanoseconds(terms.due_seconds))
      .Set(fields::kRound, static_cast<uint64_t>(offer.rounds))
      .Set(fields::kRecommendedAction, ActionFor(offer));
  if (!terms.which.empty()) data.Set(fields::kRanks, terms.which);
  if (terms.price.has_value()) data.Set(fields::kPrice, *terms.price);
  if (offer.broken_by != OfferParty::kNobody) {
    data.Set(fields::kBrokenBy, NameOf(offer.broken_by));
  }
  if (!offer.purpose.empty()) data.Set(fields::kPurpose, offer.purpose);
  if (!offer.reason.empty()) data.Set(fields::kReason, offer.reason);
  JobEvents::News news{.type = EventType::kOfferChanged, .subject = "", .data = std::move(data)};
  if (offer.state == kBroken) news.severity = Severity::kWarning;
  return news;
}

JobEvents::News Offered(const Offer& offer) {
  EventData data(EventType::kCapacityOffered,
                 fmt::format("{}; answer until {}", OfferSentence(offer, offer.terms),
                             UntilText(offer.deadline_seconds)));
  data.Set(fields::kOffer, offer.id)
      .Set(fields::kRankCount, static_cast<uint64_t>(offer.terms.ranks))
      .Set(fields::kDeadline, Nanoseconds(offer.deadline_seconds))
      .Set(fields::kNoticeSeconds, std::max(0.0, offer.deadline_seconds - UnixSeconds()))
      .Set(fields::kRecommendedAction, "accept");
  if (offer.terms.price.has_value()) data.Set(fields::kPrice, *offer.terms.price);
  if (!offer.purpose.empty()) data.Set(fields::kPurpose, offer.purpose);
  return {.type = EventType::kCapacityOffered, .subject = "", .data = std::move(data)};
}

JobEvents::News Reclaim(const Offer& offer, const OfferedJob& job) {
  EventData data(EventType::kCapacityReclaim, OfferSentence(offer, offer.terms));
  data.Set(fields::kRanks, offer.terms.which.empty() ? job.ranks_here : offer.terms.which)
      .Set(fields::kDeadline, Nanoseconds(offer.terms.due_seconds))
      .Set(fields::kNoticeSeconds, std::max(0.0, offer.terms.due_seconds - UnixSeconds()))
      .Set(fields::kOffer, offer.id)
      .Set(fields::kCanBeRefused, offer.can_be_refused)
      .Set(fields::kCanBeExtended, true)
      .Set(fields::kConfidence, 1.0)
      .Set(fields::kRecommendedAction, "checkpoint_and_leave");
  if (!offer.purpose.empty()) data.Set(fields::kPurpose, offer.purpose);
  return {.type = EventType::kCapacityReclaim, .subject = "", .data = std::move(data)};
}

JobEvents::News NoLonger(const Offer& offer) {
  EventData data(EventType::kCapacityWithdrawn,
                 fmt::format("{}: no longer", OfferSentence(offer, offer.terms)));
  data.Set(fields::kOffer, offer.id)
      .Set(fields::kRankCount, static_cast<uint64_t>(offer.terms.ranks));
  return {.type = EventType::kCapacityWithdrawn, .subject = "", .data = std::move(data)};
}

JobEvents::News Reclaimed(const Offer& offer, const OfferedJob& job) {
  const std::vector<int32_t>& ranks =
      offer.terms.which.empty() ? job.ranks_here : offer.terms.which;
  EventData data(EventType::kCapacityReclaimed,
                 fmt::format("{} of the job {} been taken back", CountedRanks(offer.terms.ranks),
                             offer.terms.ranks == 1 ? "has" : "have"));
  data.Set(fields::kRanks, ranks)
      .Set(fields::kNoticeSeconds, std::max(0.0, UnixSeconds() - offer.made_seconds))
      .Set(fields::kPromisedNoticeSeconds,
           std::max(0.0, offer.terms.due_seconds - offer.made_seconds));
  return {.type = EventType::kCapacityReclaimed, .subject = "", .data = std::move(data)};
}

JobEvents::News AllocationChanged(const Offer& offer, const OfferedJob& job) {
  const int32_t change = offer.kind == OfferKind::kGrow ? offer.terms.ranks : -offer.terms.ranks;
  const int32_t before = std::max(0, job.size - change);
  EventData data(EventType::kAllocationChanged, fmt::format("the job has {} now, where it had {}",
                                                            CountedRanks(job.size), before));
  data.Set(fields::kRanksBefore, static_cast<uint64_t>(before))
      .Set(fields::kRanksAfter, static_cast<uint64_t>(job.size))
      .Set(fields::kWhy, offer.kind == OfferKind::kGrow ? "offer" : "reclaim")
      .Set(fields::kOffer, offer.id);
  return {.type = EventType::kAllocationChanged, .subject = "", .data = std::move(data)};
}

}  // namespace

std::string OfferSentence(const Offer& offer, const OfferTerms& terms) {
  switch (offer.kind) {
    case OfferKind::kGrow:
      return fmt::format("{} more can be had, kept until {}{}", CountedRanks(terms.ranks),
                         UntilText(terms.due_seconds), PriceText(terms));
    case OfferKind::kReclaim:
      return fmt::format("{} {} to leave by {}", WhomText(terms), terms.ranks == 1 ? "is" : "are",
                         UntilText(terms.due_seconds));
    case OfferKind::kMove:
      return fmt::format("{} {} to move by {}", WhomText(terms), terms.ranks == 1 ? "is" : "are",
                         UntilText(terms.due_seconds));
    case OfferKind::kSlowDown:
      return fmt::format("the job is to send at most {:g} MB/s until {}",
                         terms.bytes_per_second * 1e-6, UntilText(terms.due_seconds));
  }
  return {};
}

// What a cloud or an operator has announced for the host, jobs hear of by the announcement's own
// events: here they hear of the answer that is asked for.
std::vector<JobEvents::News> NewsOf(const Offer* before, const Offer& after,
                                    const OfferedJob& job) {
  std::vector<JobEvents::News> news;
  const bool is_asked =
      after.state == kOffered && (before == nullptr || before->terms != after.terms);
  const bool is_announced = !after.notice.empty();
  if (is_asked && after.kind == OfferKind::kGrow) news.push_back(Offered(after));
  if (is_asked && after.kind == OfferKind::kReclaim && !is_announced) {
    news.push_back(Reclaim(after, job));
  }
  news.push_back(Changed(after));
  const bool is_off = after.state == kWithdrawn || after.state == kExpired ||
                      (after.state == kBroken && after.broken_by == OfferParty::kProvider);
  if (is_off && after.kind != OfferKind::kSlowDown && !is_announced) {
    news.push_back(NoLonger(after));
  }
  if (after.state != kFulfilled) return news;
  if (after.kind == OfferKind::kReclaim && !is_announced) news.push_back(Reclaimed(after, job));
  const bool has_other_size = after.kind == OfferKind::kGrow || after.kind == OfferKind::kReclaim;
  if (has_other_size && job.size > 0) news.push_back(AllocationChanged(after, job));
  return news;
}

}  // namespace harmonaize::daemon
