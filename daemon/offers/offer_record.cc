#include "daemon/offers/offer_record.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/promises/record_fields.h"
#include "daemon/promises/tenant_fields.h"
#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/events/event.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

constexpr uint64_t kMostRank = uint64_t{1} << 31;
/// Longest name of a communicator that is believed, in bytes: of any message between daemons.
constexpr size_t kMostNameBytes = 255;
/// Longest id of an announcement that is believed, in bytes (CloudNotice::id).
constexpr size_t kMostNoticeBytes = 128;

json JsonOf(const OfferTerms& terms) {
  json object = {{"ranks", terms.ranks},
                 {"which", terms.which},
                 {"due", terms.due_seconds},
                 {"bytes_per_second", terms.bytes_per_second}};
  if (terms.price.has_value()) object["price"] = *terms.price;
  return object;
}

json JsonOf(const OfferConcession& concession) {
  json object = json::object();
  if (concession.least_ranks.has_value()) object["least_ranks"] = *concession.least_ranks;
  if (concession.latest_due_seconds.has_value()) {
    object["latest_due"] = *concession.latest_due_seconds;
  }
  if (concession.least_price.has_value()) object["least_price"] = *concession.least_price;
  return object;
}

/// Returns a number from 0 to `most`; notes that the record is wrong for another one.
double NumberIn(RecordFields& fields, const char* name, double most) {
  const double number = fields.Seconds(name);
  return fields.Expect(number <= most) ? number : 0;
}

/// Returns a whole number from 0 to `most`, likewise.
int32_t SmallIn(RecordFields& fields, const char* name, uint64_t most) {
  const uint64_t count = fields.Count(name);
  return fields.Expect(count <= most) ? static_cast<int32_t>(count) : 0;
}

/// Returns the value of an enumeration that has so many, likewise.
template <typename Enum>
Enum EnumIn(RecordFields& fields, const char* name, int values) {
  return static_cast<Enum>(SmallIn(fields, name, static_cast<uint64_t>(values - 1)));
}

/// Returns a field's object as text; "" and a wrong record where it is none.
std::string ObjectIn(RecordFields& fields, const json& document, const char* name) {
  const auto found = document.find(name);
  if (!fields.Expect(found != document.end() && found->is_object())) return {};
  return JsonText(*found);
}

std::vector<int32_t> RanksIn(RecordFields& fields, const char* name) {
  std::vector<int32_t> ranks;
  const json& list = fields.List(name);
  fields.Expect(list.size() <= kMostNamedOfferRanks);
  for (const json& rank : list) {
    if (!fields.Expect(rank.is_number_unsigned() && rank.get<uint64_t>() < kMostRank)) break;
    ranks.push_back(rank.get<int32_t>());
  }
  return ranks;
}

OfferTerms TermsIn(RecordFields& outer, const std::string& text) {
  RecordFields fields(text);
  OfferTerms terms{.ranks = SmallIn(fields, "ranks", kMostOfferedRanks),
                   .which = RanksIn(fields, "which")};
  terms.due_seconds = fields.Seconds("due");
  terms.bytes_per_second = NumberIn(fields, "bytes_per_second", kMostOfferRate);
  if (fields.Has("price")) terms.price = NumberIn(fields, "price", kMostOfferPrice);
  outer.Expect(fields.good());
  return terms;
}

OfferConcession ConcessionIn(RecordFields& outer, const std::string& text) {
  RecordFields fields(text);
  OfferConcession concession;
  if (fields.Has("least_ranks")) {
    concession.least_ranks = SmallIn(fields, "least_ranks", kMostOfferedRanks);
  }
  if (fields.Has("latest_due")) concession.latest_due_seconds = fields.Seconds("latest_due");
  if (fields.Has("least_price")) {
    concession.least_price = NumberIn(fields, "least_price", kMostOfferPrice);
  }
  outer.Expect(fields.good());
  return concession;
}

}  // namespace

std::string OfferText(const Offer& offer) {
  json object = {{"id", offer.id},
                 {"revision", offer.revision},
                 {"job", offer.job.text()},
                 {"job_name", offer.job_name},
                 {"kind", static_cast<uint64_t>(offer.kind)},
                 {"state", static_cast<uint64_t>(offer.state)},
                 {"terms", JsonOf(offer.terms)},
                 {"counter", JsonOf(offer.counter)},
                 {"communicator", offer.communicator},
                 {"of_ranks", offer.of_ranks},
                 {"concession", JsonOf(offer.concession)},
                 {"rounds", static_cast<uint64_t>(offer.rounds)},
                 {"most_rounds", static_cast<uint64_t>(offer.most_rounds)},
                 {"made", offer.made_seconds},
                 {"deadline", offer.deadline_seconds},
                 {"ended", offer.ended_seconds},
                 {"can_be_refused", offer.can_be_refused},
                 {"is_enforced", offer.is_enforced},
                 {"urgency", static_cast<uint64_t>(offer.urgency)},
                 {"purpose", offer.purpose},
                 {"expected_step", offer.expected.step_seconds},
                 {"confidence", offer.expected.confidence},
                 {"reason", offer.reason},
                 {"broken_by", static_cast<uint64_t>(offer.broken_by)},
                 {"quiet_until", offer.quiet_until_seconds},
                 {"ranks_before", static_cast<uint64_t>(offer.ranks_before)},
                 {"last_answer", offer.last_answer},
                 {"notice", offer.notice}};
  SetTenant(offer.tenant, &object);
  return JsonText(object);
}

std::optional<Offer> OfferIn(const std::string& text) {
  const json document = ReadJson(text);
  RecordFields fields(text);
  if (!fields.good()) return std::nullopt;
  Offer offer{.id = fields.Text("id", kMostOfferTextBytes), .revision = fields.Count("revision")};
  const std::optional<JobIdentity> job = ParseJob(fields.Text("job", kMostJobIdBytes));
  fields.Expect(IsOfferId(offer.id) && offer.revision > 0 && job.has_value());
  offer.job = job.value_or(JobIdentity{});
  offer.job_name = fields.Text("job_name", sizeof(HelloRequest::job_name));
  offer.tenant = TenantIn(fields);
  offer.kind = EnumIn<OfferKind>(fields, "kind", kOfferKindCount);
  offer.state = EnumIn<OfferState>(fields, "state", kOfferStateCount);
  offer.terms = TermsIn(fields, ObjectIn(fields, document, "terms"));
  offer.counter = TermsIn(fields, ObjectIn(fields, document, "counter"));
  // Earlier daemons did not say it.
  if (fields.Has("of_ranks")) {
    offer.communicator = fields.Text("communicator", kMostNameBytes);
    offer.of_ranks = SmallIn(fields, "of_ranks", kMostRank - 1);
  }
  offer.concession = ConcessionIn(fields, ObjectIn(fields, document, "concession"));
  offer.rounds = SmallIn(fields, "rounds", kMostOfferRounds);
  offer.most_rounds = SmallIn(fields, "most_rounds", kMostOfferRounds);
  offer.made_seconds = fields.Seconds("made");
  offer.deadline_seconds = fields.Seconds("deadline");
  offer.ended_seconds = fields.Seconds("ended");
  offer.can_be_refused = fields.YesNo("can_be_refused");
  offer.is_enforced = fields.YesNo("is_enforced");
  offer.urgency = EnumIn<OfferUrgency>(fields, "urgency", kOfferUrgencyCount);
  offer.purpose = fields.Text("purpose", kMostOfferTextBytes);
  // Earlier daemons did not say it.
  if (fields.Has("expected_step")) {
    offer.expected.step_seconds = NumberIn(fields, "expected_step", kMostForecastSeconds);
    offer.expected.confidence = NumberIn(fields, "confidence", 1);
  }
  offer.reason = fields.Text("reason", kMostOfferTextBytes);
  offer.broken_by = EnumIn<OfferParty>(fields, "broken_by", kOfferPartyCount);
  offer.quiet_until_seconds = fields.Seconds("quiet_until");
  offer.ranks_before = SmallIn(fields, "ranks_before", kMostRank - 1);
  offer.last_answer = fields.Count("last_answer");
  offer.notice = fields.Text("notice", kMostNoticeBytes);
  return fields.good() ? std::optional(std::move(offer)) : std::nullopt;
}

std::string AnswerText(const OfferAnswer& answer) {
  const OfferAnswer::Counter& counter = answer.counter;
  json object = {{"kind", static_cast<uint64_t>(answer.kind)},
                 {"unique", answer.unique},
                 {"revision", answer.revision},
                 {"which", counter.which},
                 {"quiet", answer.quiet_seconds},
                 {"reason", answer.reason}};
  if (counter.ranks.has_value()) object["ranks"] = *counter.ranks;
  if (counter.due_seconds.has_value()) object["due"] = *counter.due_seconds;
  if (counter.price.has_value()) object["price"] = *counter.price;
  if (counter.bytes_per_second.has_value()) object["bytes_per_second"] = *counter.bytes_per_second;
  return JsonText(object);
}

std::optional<OfferAnswer> AnswerIn(const std::string& text) {
  RecordFields fields(text);
  OfferAnswer answer{
      .kind = EnumIn<OfferAnswer::Kind>(fields, "kind", kOfferAnswerKindCount),
      .unique = fields.Count("unique"),
      .revision = fields.Count("revision"),
      .quiet_seconds = NumberIn(fields, "quiet", kMostOfferSeconds),
      .reason = CleanText(fields.Text("reason", kMostOfferTextBytes), kMostOfferTextBytes)};
  answer.counter.which = RanksIn(fields, "which");
  if (fields.Has("ranks")) answer.counter.ranks = SmallIn(fields, "ranks", kMostOfferedRanks);
  if (fields.Has("due")) answer.counter.due_seconds = fields.Seconds("due");
  if (fields.Has("price")) answer.counter.price = NumberIn(fields, "price", kMostOfferPrice);
  if (fields.Has("bytes_per_second")) {
    answer.counter.bytes_per_second = NumberIn(fields, "bytes_per_second", kMostOfferRate);
  }
  return fields.good() ? std::optional(std::move(answer)) : std::nullopt;
}

Record RecordOf(const Offer& offer) {
  return {kOfferRecord, offer.id, OfferText(offer)};
}

std::optional<Offer> OfferIn(const Record& record) {
  std::optional<Offer> offer = OfferIn(record.text);
  return offer.has_value() && offer->id == record.key ? std::move(offer) : std::nullopt;
}

}  // namespace harmonaize::daemon
