// What people read of offers.

#include "cli/offers/offer_table.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/promises/promise_table.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

/// Returns an offer as the daemon tells a tenant of it.
Json Reclaim() {
  return ReadJson(R"({
    "id": "offer-3f9a01c28be4d705", "job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "job_name": "llama",
    "kind": "reclaim", "state": "offered", "ranks": 2, "which": [1, 3], "price": null,
    "deadline": "2026-12-01T02:00:00.000000Z", "due": "2026-12-01T02:10:00.000000Z",
    "counter": null, "round": 0, "most_rounds": 4, "can_be_refused": true, "broken_by": null,
    "ended": null, "purpose": "", "reason": ""})");
}

Json SlowDown() {
  Json offer = Reclaim();
  offer["kind"] = "slow_down";
  offer["ranks"] = 0;
  offer["which"] = Json::array();
  offer["bytes_per_second"] = 1e9;
  return offer;
}

std::string TableOf(const Json& offer) {
  const Result<std::string> table = OfferTable(JsonText(Json({{"offers", {offer}}})));
  return table.ok() ? *table : table.status().message();
}

TEST(OfferTable, ShowsWhatIsAskedAndHowToAnswer) {
  EXPECT_EQ(TableOf(Reclaim()),
            "id                      job    kind     state    ranks     answer until          due\n"
            "offer-3f9a01c28be4d705  llama  reclaim  offered  2 (1, 3)  2026-12-01T02:00:00Z  "
            "2026-12-01T02:10:00Z\n"
            "    answer with: harmonaize offer accept offer-3f9a01c28be4d705, or counter, or "
            "decline\n");
}

TEST(OfferTable, NamesNoAnswerThatWouldBeRefused) {
  Json offer = Reclaim();
  offer["can_be_refused"] = false;
  ExpectHolds(TableOf(offer), "\n    it cannot be refused\n");
  ExpectHolds(TableOf(offer), "offer-3f9a01c28be4d705, or counter\n");
  offer["round"] = 4;
  ExpectHolds(TableOf(offer), "harmonaize offer accept offer-3f9a01c28be4d705\n");
}

TEST(OfferTable, ShowsOperatorsTheTenantAndWhatTheyCanDo) {
  Json offer = Reclaim();
  offer["tenant"] = "uid 1000";
  ExpectHolds(TableOf(offer), "offer-3f9a01c28be4d705  uid 1000  llama  reclaim");
  ExpectHolds(TableOf(offer), "\n    the job is asked\n");
  offer["state"] = "countered";
  offer["counter"] = {
      {"ranks", 1}, {"which", {3}}, {"price", 0.5}, {"due", "2026-12-01T03:00:00.000000Z"}};
  offer["reason"] = "a checkpoint is under way";
  const std::string table = TableOf(offer);
  ExpectHolds(table,
              "\n    the job asks for 1 rank (3), due 2026-12-01T03:00:00Z, at 0.5 credits for a "
              "rank and an hour\n");
  ExpectHolds(table, "\n    reason: a checkpoint is under way\n");
  ExpectHolds(table,
              "\n    answer with: harmonaize offer take offer-3f9a01c28be4d705, or keep, or "
              "propose\n");
}

TEST(OfferTable, ARateIsWhatASlowDownIsAbout) {
  Json offer = SlowDown();
  ExpectHolds(TableOf(offer), "slow_down  offered  at most 1 GB/s  2026-12-01T02:00:00Z");
  offer["state"] = "countered";
  offer["counter"] = offer;
  offer["counter"]["bytes_per_second"] = 2e9;
  ExpectHolds(TableOf(offer), "the job asks for at most 2 GB/s, due 2026-12-01T02:10:00Z\n");
  ExpectHolds(TableOf(offer), "\n    the provider is asked\n");
}

TEST(OfferTable, SaysWhatIsToBeDoneOfWhatWasAgreedAndNothingOfWhatHasEnded) {
  Json offer = Reclaim();
  offer["state"] = "accepted";
  ExpectHolds(TableOf(offer), "\n    the ranks are to leave by the time that is due\n");
  offer["kind"] = "grow";
  ExpectHolds(TableOf(offer), "\n    the ranks are to come by the time that is due\n");
  offer["state"] = "broken";
  offer["broken_by"] = "provider";
  ExpectHolds(TableOf(offer), "  broken by the provider  ");
  EXPECT_EQ(TableOf(offer).find("\n    "), std::string::npos) << TableOf(offer);
}

TEST(OfferTable, SaysWhatIsExpected) {
  Json offer = Reclaim();
  EXPECT_EQ(TableOf(offer).find("expected"), std::string::npos) << TableOf(offer);
  offer["expected"] = {{"step_seconds", 0.25}, {"confidence", 0.5}};
  ExpectHolds(TableOf(offer), "\n    expected with it: 250 ms for a step\n");
}

TEST(OfferTable, LetsNoTextSteerTheTerminal) {
  Json offer = Reclaim();
  for (const char* const field : {"id", "job_name", "kind", "state", "purpose", "reason", "tenant",
                                  "deadline", "due", "broken_by"}) {
    offer[field] = "\033]0;owned\007";
  }
  for (const std::string& text : {TableOf(offer), OfferLine(offer), AgreedOfferTable({offer})}) {
    EXPECT_EQ(text.find_first_of("\033\007"), std::string::npos) << text;
  }
}

TEST(OfferTable, SaysThatThereAreNoneAndWhatIsNoAnswer) {
  EXPECT_EQ(OfferTable(R"({"offers": []})").value(), "no offers\n");
  EXPECT_EQ(OfferTable("[]").status().message(), "the daemon's answer is not a JSON object");
  // A daemon of another version.
  EXPECT_TRUE(OfferTable(R"({"offers": [7, {}, {"which": 3, "counter": [], "ranks": "x"}]})").ok());
}

TEST(OfferLine, IsAboutRanksOrARate) {
  EXPECT_EQ(OfferLine(Reclaim()),
            "offer-3f9a01c28be4d705: reclaim of 2 ranks (1, 3), offered, answer until "
            "2026-12-01T02:00:00Z, due 2026-12-01T02:10:00Z");
  ExpectHolds(OfferLine(SlowDown()), ": slow_down of at most 1 GB/s, offered");
}

TEST(PromiseTable, ShowsWhatWasAgreedByOffersAndWhetherItWasKept) {
  Json offers = Json::array();
  for (const char* const state : {"offered", "accepted", "declined", "fulfilled", "broken"}) {
    Json offer = Reclaim();
    offer["state"] = state;
    offers.push_back(offer);
  }
  offers[4]["broken_by"] = "tenant";
  offers[4]["ended"] = "2026-12-01T02:10:00.000000Z";
  EXPECT_EQ(AgreedOffers(offers).size(), 3u);
  const Json document = {{"promises", Json::array()}, {"offers", offers}};
  const std::string row =
      "offer-3f9a01c28be4d705  llama  reclaim  2 (1, 3)  2026-12-01T02:10:00Z  ";
  EXPECT_EQ(PromiseTable(JsonText(document)).value(),
            "offer                   job    kind     ranks     due                   ended"
            "                 outcome\n" +
                row + "-                     open\n" + row + "-                     kept\n" + row +
                "2026-12-01T02:10:00Z  broken by the tenant\n");
  EXPECT_EQ(PromiseTable(R"({"promises": [], "offers": []})").value(), "no promises\n");
  EXPECT_EQ(PromiseTable(R"({"promises": []})").value(), "no promises\n");
}

}  // namespace
}  // namespace harmonaize
