#include "cli/offers/offer_table.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/jobs/short_job_id.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

/// Returns whether an offer is one that an operator reads.
bool IsForOperators(const Json& offer) {
  return At(offer, "tenant").is_string();
}

bool CannotBeRefused(const Json& offer) {
  const Json& can = At(offer, "can_be_refused");
  return can.is_boolean() && !can.get<bool>();
}

/// Returns the ranks that are named, as " (1, 3)"; "": the job chooses.
std::string WhichText(const Json& terms) {
  std::string which;
  for (const Json& rank : ListAt(terms, "which"))
    which += (which.empty() ? "" : ", ") + TextOf(rank);
  return which.empty() ? "" : fmt::format(" ({})", which);
}

std::string RateText(const Json& terms) {
  const Json& rate = At(terms, "bytes_per_second");
  return rate.is_number() ? "at most " + HumanRate(rate.get<double>()) : "";
}

/// Returns what terms are about: a number of ranks, and which they are, or a rate.
std::string WhatText(const Json& terms) {
  const std::string rate = RateText(terms);
  return rate.empty() ? TextAt(terms, "ranks") + WhichText(terms) : rate;
}

/// Returns the same in a sentence, as "2 ranks (1, 3)".
std::string CountedText(const Json& terms) {
  const std::string rate = RateText(terms);
  if (!rate.empty()) return rate;
  const std::string ranks = TextAt(terms, "ranks");
  return fmt::format("{} rank{}{}", ranks, ranks == "1" ? "" : "s", WhichText(terms));
}

std::string PriceText(const Json& terms) {
  const Json& price = At(terms, "price");
  if (!price.is_number()) return {};
  return fmt::format("{:g} credits for a rank and an hour", price.get<double>());
}

std::string StateText(const Json& offer) {
  std::string state = TextAt(offer, "state");
  if (At(offer, "broken_by").is_string()) state += " by the " + TextAt(offer, "broken_by");
  return state;
}

std::string JobText(const Json& offer) {
  const std::string name = TextAt(offer, "job_name");
  const bool named = !name.empty() && name != kMissing;
  return named ? name : ShortJobId(TextAt(offer, "job"));
}

/// Returns how a tenant can answer an offer that stands.
std::string AnswersText(const Json& offer) {
  const bool may_counter = CountAt(offer, "round") < CountAt(offer, "most_rounds");
  std::string text = "answer with: harmonaize offer accept " + TextAt(offer, "id");
  if (may_counter) text += ", or counter";
  if (!CannotBeRefused(offer)) text += ", or decline";
  return text;
}

std::string AgreedText(const std::string& kind) {
  if (kind == "grow") return "the ranks are to come by the time that is due";
  if (kind == "slow_down") return "the daemon sees to the rate";
  return "the ranks are to leave by the time that is due";
}

/// Returns what the reader of an offer can do about it, or whom it waits for; "": it has ended.
std::string NextStep(const Json& offer) {
  const std::string state = TextAt(offer, "state");
  const bool for_operators = IsForOperators(offer);
  if (state == "accepted") return AgreedText(TextAt(offer, "kind"));
  if (state == "offered") return for_operators ? "the job is asked" : AnswersText(offer);
  if (state != "countered") return {};
  if (!for_operators) return "the provider is asked";
  return "answer with: harmonaize offer take " + TextAt(offer, "id") + ", or keep, or propose";
}

void AddCounter(const Json& offer, TextTable* table) {
  const Json& counter = At(offer, "counter");
  if (!counter.is_object()) return;
  const std::string price = PriceText(counter);
  table->AddNote(fmt::format("the job asks for {}, due {}{}", CountedText(counter),
                             MomentAt(counter, "due"), price.empty() ? "" : ", at " + price));
}

std::string ForecastText(const Json& offer) {
  const Json& step = At(At(offer, "expected"), "step_seconds");
  if (!step.is_number()) return {};
  return fmt::format("expected with it: {} for a step", HumanTime(step.get<double>()));
}

/// Adds what a line of the table has no room for.
void AddNotes(const Json& offer, TextTable* table) {
  AddCounter(offer, table);
  if (const std::string price = PriceText(offer); !price.empty()) table->AddNote(price);
  const bool is_open = TextAt(offer, "state") == "offered" || TextAt(offer, "state") == "countered";
  if (is_open && CannotBeRefused(offer)) table->AddNote("it cannot be refused");
  for (const char* const field : {"purpose", "reason"}) {
    const std::string text = TextAt(offer, field);
    if (!text.empty() && text != kMissing) table->AddNote(fmt::format("{}: {}", field, text));
  }
  if (const std::string expected = ForecastText(offer); !expected.empty()) {
    table->AddNote(expected);
  }
  if (const std::string next = NextStep(offer); !next.empty()) table->AddNote(next);
}

TextTable TableOf(const Json& offers) {
  const bool with_tenants = !offers.empty() && IsForOperators(offers.front());
  std::vector<std::string> head = {"id", "job", "kind", "state", "ranks", "answer until", "due"};
  if (with_tenants) head.insert(head.begin() + 1, "tenant");
  const size_t columns = head.size();
  TextTable table(std::move(head), columns);
  for (const Json& offer : offers) {
    std::vector<std::string> row = {TextAt(offer, "id"),   JobText(offer),
                                    TextAt(offer, "kind"), StateText(offer),
                                    WhatText(offer),       MomentAt(offer, "deadline"),
                                    MomentAt(offer, "due")};
    if (with_tenants) row.insert(row.begin() + 1, TextAt(offer, "tenant"));
    table.Add(std::move(row));
    AddNotes(offer, &table);
  }
  return table;
}

/// Returns what has become of an agreement.
std::string AgreementOutcome(const Json& offer) {
  const std::string state = TextAt(offer, "state");
  if (state == "accepted") return "open";
  return state == "fulfilled" ? "kept" : StateText(offer);
}

}  // namespace

Result<std::string> OfferTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  const TextTable table = TableOf(ListAt(json, "offers"));
  if (table.empty()) return std::string("no offers\n");
  std::string text;
  table.Print(&text);
  return text;
}

Json AgreedOffers(const Json& offers) {
  Json agreed = Json::array();
  for (const Json& offer : offers) {
    const std::string state = TextAt(offer, "state");
    if (state == "accepted" || state == "fulfilled" || state == "broken") agreed.push_back(offer);
  }
  return agreed;
}

std::string AgreedOfferTable(const Json& offers) {
  TextTable table({"offer", "job", "kind", "ranks", "due", "ended", "outcome"}, 7);
  for (const Json& offer : AgreedOffers(offers)) {
    table.Add({TextAt(offer, "id"), JobText(offer), TextAt(offer, "kind"), WhatText(offer),
               MomentAt(offer, "due"), MomentAt(offer, "ended"), AgreementOutcome(offer)});
  }
  std::string text;
  if (!table.empty()) table.Print(&text);
  return text;
}

std::string OfferLine(const Json& offer) {
  return fmt::format("{}: {} of {}, {}, answer until {}, due {}", TextAt(offer, "id"),
                     TextAt(offer, "kind"), CountedText(offer), StateText(offer),
                     MomentAt(offer, "deadline"), MomentAt(offer, "due"));
}

}  // namespace harmonaize
