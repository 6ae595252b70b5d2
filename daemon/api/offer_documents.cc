#include "daemon/api/offer_documents.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/api/json_body.h"
#include "daemon/api/notice_documents.h"
#include "src/base/clean_text.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

constexpr double kMostRevision = 0x1p53;
/// Time, in seconds, for which accepted places are kept where the offer does not say it.
constexpr double kPlacesKeptSeconds = 600;
/// Longest id or name of a job in a body, in bytes.
constexpr size_t kMostJobBytes = 128;

template <typename Value>
json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? json(*value) : json(nullptr);
}

json TermsOf(OfferKind kind, const OfferTerms& terms) {
  json document = {{"ranks", terms.ranks},
                   {"which", terms.which},
                   {"due", TimeOrNull(terms.due_seconds)},
                   {"price", OrNull(terms.price)}};
  if (kind == OfferKind::kSlowDown) document["bytes_per_second"] = terms.bytes_per_second;
  return document;
}

json ForecastOf(const OfferForecast& forecast) {
  if (forecast.step_seconds <= 0) return nullptr;
  return {{"step_seconds", forecast.step_seconds}, {"confidence", forecast.confidence}};
}

std::optional<double> SecondsOf(JsonBody& body, std::string_view field) {
  const std::optional<int64_t> time = body.Time(field);
  if (!time.has_value()) return std::nullopt;
  return std::floor(static_cast<double>(*time) * 1e-9);
}

/// Returns the time that a field names, or that is so many seconds from now by another field.
std::optional<double> MomentIn(JsonBody& body, std::string_view at, std::string_view within) {
  const std::optional<double> moment = SecondsOf(body, at);
  const std::optional<double> seconds = body.Number(within, 1, 2 * kMostOfferSeconds);
  if (moment.has_value() && seconds.has_value()) {
    body.Fail(InvalidArgument("'{}' and '{}' say the same thing: give one of them", at, within));
  }
  if (seconds.has_value()) return std::ceil(UnixSeconds() + *seconds);
  return moment;
}

std::optional<int32_t> RanksIn(JsonBody& body, std::string_view field) {
  const std::optional<double> ranks = body.Number(field, 1, kMostOfferedRanks);
  if (!ranks.has_value()) return std::nullopt;
  if (*ranks != std::floor(*ranks)) {
    body.Fail(InvalidArgument("'{}' is a whole number", field));
    return std::nullopt;
  }
  return static_cast<int32_t>(*ranks);
}

std::vector<int32_t> WhichIn(JsonBody& body) {
  const std::optional<json> list = body.Any("which");
  std::vector<int32_t> which;
  if (!list.has_value()) return which;
  const auto is_rank = [](const json& rank) {
    return rank.is_number_unsigned() && rank.get<uint64_t>() <= INT32_MAX;
  };
  if (!list->is_array() || list->size() > kMostNamedOfferRanks ||
      !std::all_of(list->begin(), list->end(), is_rank)) {
    body.Fail(InvalidArgument("'which' is a list of at most {} ranks", kMostNamedOfferRanks));
    return which;
  }
  for (const json& rank : *list) which.push_back(rank.get<int32_t>());
  std::sort(which.begin(), which.end());
  return which;
}

std::string LineIn(JsonBody& body, std::string_view field) {
  return CleanText(body.Text(field, kMostOfferTextBytes).value_or(""), kMostOfferTextBytes);
}

uint64_t RevisionIn(JsonBody& body) {
  return static_cast<uint64_t>(body.Number("revision", 1, kMostRevision).value_or(0));
}

OfferAnswer::Counter CounterTermsIn(JsonBody& body) {
  OfferAnswer::Counter counter;
  counter.ranks = RanksIn(body, "ranks");
  counter.which = WhichIn(body);
  counter.due_seconds = MomentIn(body, "due", "due_within_seconds");
  counter.price = body.Number("price", 0, kMostOfferPrice);
  counter.bytes_per_second = body.Number("bytes_per_second", 1, kMostOfferRate);
  return counter;
}

std::string_view Whole(const std::string& body) {
  return body.empty() ? std::string_view("{}") : std::string_view(body);
}

OfferConcession ConcessionIn(JsonBody& body) {
  OfferConcession concession;
  concession.least_ranks = RanksIn(body, "least_ranks");
  concession.latest_due_seconds = MomentIn(body, "latest_due", "latest_due_within_seconds");
  concession.least_price = body.Number("least_price", 0, kMostOfferPrice);
  return concession;
}

OfferKind KindIn(JsonBody& body) {
  body.Need("kind", "grow, reclaim, move or slow_down");
  const std::string name = body.Text("kind", kMostOfferTextBytes).value_or("grow");
  const std::optional<OfferKind> kind = OfferKindNamed(name);
  if (!kind.has_value()) {
    body.Fail(InvalidArgument("'kind' is grow, reclaim, move or slow_down"));
  }
  return kind.value_or(OfferKind::kGrow);
}

OfferUrgency UrgencyIn(JsonBody& body) {
  const std::string name = body.Text("urgency", kMostOfferTextBytes).value_or("normal");
  const std::optional<OfferUrgency> urgency = OfferUrgencyNamed(name);
  if (!urgency.has_value()) body.Fail(InvalidArgument("'urgency' is low, normal or high"));
  return urgency.value_or(OfferUrgency::kNormal);
}

// The ranks that leave are gone when the time for an answer is over, unless the order says
// otherwise. Places are kept for a while behind that time.
void SetTimes(JsonBody& body, OfferOrder* order) {
  const std::optional<double> deadline = MomentIn(body, "deadline", "within_seconds");
  const std::optional<double> due = MomentIn(body, "due", "due_within_seconds");
  if (!deadline.has_value() && !due.has_value()) {
    body.Fail(InvalidArgument(
        "'deadline', a time, or 'within_seconds' says until when the offer may be answered"));
    return;
  }
  const double kept = order->kind == OfferKind::kGrow ? kPlacesKeptSeconds : 0;
  order->deadline_seconds = deadline.value_or(due.value_or(0));
  order->terms.due_seconds = due.value_or(order->deadline_seconds + kept);
}

}  // namespace

json Describe(const Offer& offer, bool for_operators) {
  json document = {{"id", offer.id},
                   {"revision", offer.revision},
                   {"job", offer.job.text()},
                   {"job_name", offer.job_name},
                   {"kind", NameOf(offer.kind)},
                   {"state", NameOf(offer.state)},
                   {"communicator", offer.communicator},
                   {"of_ranks", offer.of_ranks},
                   {"counter", nullptr},
                   {"round", offer.rounds},
                   {"most_rounds", offer.most_rounds},
                   {"made", TimeOrNull(offer.made_seconds)},
                   {"deadline", TimeOrNull(offer.deadline_seconds)},
                   {"ended", TimeOrNull(offer.ended_seconds)},
                   {"notice_seconds", std::max(0.0, offer.terms.due_seconds - offer.made_seconds)},
                   {"can_be_refused", offer.can_be_refused},
                   {"enforced", offer.is_enforced},
                   {"urgency", NameOf(offer.urgency)},
                   {"purpose", offer.purpose},
                   {"reason", offer.reason},
                   {"broken_by", nullptr},
                   {"not_again_before", TimeOrNull(offer.quiet_until_seconds)},
                   {"announcement", offer.notice},
                   {"expected", ForecastOf(offer.expected)}};
  document.update(TermsOf(offer.kind, offer.terms));
  if (offer.state == OfferState::kCountered) {
    document["counter"] = TermsOf(offer.kind, offer.counter);
  }
  if (offer.broken_by != OfferParty::kNobody) document["broken_by"] = NameOf(offer.broken_by);
  if (!for_operators) return document;
  document["tenant"] = offer.tenant.name;
  document["concession"] = {
      {"least_ranks", OrNull(offer.concession.least_ranks)},
      {"latest_due", TimeOrNull(offer.concession.latest_due_seconds.value_or(0))},
      {"least_price", OrNull(offer.concession.least_price)}};
  return document;
}

Result<OfferAnswer> AcceptIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"revision", "reason"};
  JsonBody body(Whole(text), kFields);
  OfferAnswer answer{.kind = OfferAnswer::Kind::kAccept,
                     .unique = RandomNumber(),
                     .revision = RevisionIn(body),
                     .reason = LineIn(body, "reason")};
  HZ_RETURN_IF_ERROR(body.status());
  return answer;
}

Result<OfferAnswer> DeclineIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"revision", "not_again_for_seconds", "reason"};
  JsonBody body(Whole(text), kFields);
  OfferAnswer answer{
      .kind = OfferAnswer::Kind::kDecline,
      .unique = RandomNumber(),
      .revision = RevisionIn(body),
      .quiet_seconds = body.Number("not_again_for_seconds", 0, kMostOfferSeconds).value_or(0),
      .reason = LineIn(body, "reason")};
  HZ_RETURN_IF_ERROR(body.status());
  return answer;
}

Result<OfferAnswer> CounterIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {
      "revision",         "ranks", "which", "due", "due_within_seconds", "price",
      "bytes_per_second", "reason"};
  JsonBody body(Whole(text), kFields);
  OfferAnswer answer{.kind = OfferAnswer::Kind::kCounter,
                     .unique = RandomNumber(),
                     .revision = RevisionIn(body),
                     .counter = CounterTermsIn(body),
                     .reason = LineIn(body, "reason")};
  HZ_RETURN_IF_ERROR(body.status());
  return answer;
}

Result<NamedOrder> OfferOrderIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {"job",
                                                 "kind",
                                                 "ranks",
                                                 "which",
                                                 "deadline",
                                                 "within_seconds",
                                                 "due",
                                                 "due_within_seconds",
                                                 "price",
                                                 "bytes_per_second",
                                                 "least_ranks",
                                                 "latest_due",
                                                 "latest_due_within_seconds",
                                                 "least_price",
                                                 "rounds",
                                                 "can_be_refused",
                                                 "enforced",
                                                 "urgency",
                                                 "purpose",
                                                 "insist"};
  JsonBody body(text, kFields);
  body.Need("job", "a job's id or name");
  NamedOrder named{.job = body.Text("job", kMostJobBytes).value_or(""), .order = {}};
  OfferOrder& order = named.order;
  order.kind = KindIn(body);
  order.terms.which = WhichIn(body);
  const auto named_ranks = static_cast<int32_t>(order.terms.which.size());
  const int32_t fallback = order.kind == OfferKind::kSlowDown ? 0 : 1;
  order.terms.ranks = RanksIn(body, "ranks").value_or(named_ranks > 0 ? named_ranks : fallback);
  order.terms.price = body.Number("price", 0, kMostOfferPrice);
  order.terms.bytes_per_second = body.Number("bytes_per_second", 1, kMostOfferRate).value_or(0);
  SetTimes(body, &order);
  order.concession = ConcessionIn(body);
  order.most_rounds = static_cast<int>(body.Number("rounds", 0, kMostOfferRounds).value_or(4));
  order.can_be_refused = body.YesNo("can_be_refused").value_or(true);
  order.is_enforced = body.YesNo("enforced").value_or(false);
  order.urgency = UrgencyIn(body);
  order.purpose = LineIn(body, "purpose");
  order.insists = body.YesNo("insist").value_or(false);
  HZ_RETURN_IF_ERROR(body.status());
  return named;
}

Result<OfferStep> StepIn(const std::string& text, OfferStep::Kind kind) {
  static constexpr std::string_view kFields[] = {"reason"};
  JsonBody body(Whole(text), kFields);
  OfferStep step{.kind = kind, .reason = LineIn(body, "reason")};
  HZ_RETURN_IF_ERROR(body.status());
  return step;
}

Result<ProposedTerms> ProposalIn(const std::string& text) {
  static constexpr std::string_view kFields[] = {
      "ranks",    "which",          "due",   "due_within_seconds", "price", "bytes_per_second",
      "deadline", "within_seconds", "reason"};
  JsonBody body(text, kFields);
  ProposedTerms proposed{.terms = CounterTermsIn(body),
                         .deadline_seconds = MomentIn(body, "deadline", "within_seconds"),
                         .reason = LineIn(body, "reason")};
  HZ_RETURN_IF_ERROR(body.status());
  return proposed;
}

}  // namespace harmonaize::daemon
