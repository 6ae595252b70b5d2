#include "cli/offers/offer_table.h"

#include <fmt/format.h>

#include "cli/human_units.h"
#include "cli/jobs/short_job_id.h"
#include "cli/text_table.h"

namespace harmonaize {
namespace {

std::string RanksText(const Json& terms) {
  std::string text = TextAt(terms, "ranks");
  std::string which;
  for (const Json& rank : ListAt(terms, "which"))
    which += (which.empty() ? "" : ", ") + TextOf(rank);
  return which.empty() ? text : text + " (" + which + ")";
}

std::string WhatText(const Json& offer) {
  const Json& rate = At(offer, "bytes_per_second");
  if (rate.is_number()) return "at most " + HumanRate(rate.get<double>());
  return RanksText(offer);
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

/// Adds what a line of the table has no room for.
void AddNotes(const Json& offer, TextTable* table) {
  const Json& counter = At(offer, "counter");
  if (counter.is_object()) {
    table->AddNote(fmt::format("  the job asks for {} ranks, due {}", RanksText(counter),
                               MomentAt(counter, "due")));
  }
  if (At(offer, "price").is_number()) {
    table->AddNote(
        fmt::format("  {:g} credits for a rank and an hour", At(offer, "price").get<double>()));
  }
  if (At(offer, "can_be_refused").is_boolean() && !YesAt(offer, "can_be_refused")) {
    table->AddNote("  it cannot be refused");
  }
  for (const char* const field : {"purpose", "reason"}) {
    const std::string text = TextAt(offer, field);
    if (!text.empty() && text != kMissing) table->AddNote(fmt::format("  {}: {}", field, text));
  }
}

}  // namespace

Result<std::string> OfferTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  TextTable table({"id", "job", "kind", "state", "ranks", "answer until", "due"}, 7);
  for (const Json& offer : ListAt(json, "offers")) {
    table.Add({TextAt(offer, "id"), JobText(offer), TextAt(offer, "kind"), StateText(offer),
               WhatText(offer), MomentAt(offer, "deadline"), MomentAt(offer, "due")});
    AddNotes(offer, &table);
  }
  if (table.empty()) return std::string("no offers\n");
  std::string text;
  table.Print(&text);
  return text;
}

std::string OfferLine(const Json& offer) {
  return fmt::format("{}: {} of {}, {}, answer until {}, due {}", TextAt(offer, "id"),
                     TextAt(offer, "kind"), WhatText(offer), StateText(offer),
                     MomentAt(offer, "deadline"), MomentAt(offer, "due"));
}

}  // namespace harmonaize
