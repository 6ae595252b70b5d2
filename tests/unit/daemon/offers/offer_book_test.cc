#include "daemon/offers/offer_book.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/offers/offer_record.h"

namespace harmonaize::daemon {
namespace {

TenantIdentity Tenant(uint32_t number) {
  return {.number = number,
          .across_hosts = number,
          .user = number,
          .name = fmt::format("uid {}", number)};
}

Offer AnOffer(uint32_t tenant, double made_seconds = 1000) {
  Offer offer{.id = MakeOfferId(),
              .job_name = "llama",
              .tenant = Tenant(tenant),
              .terms = {.ranks = 2, .due_seconds = made_seconds + 100},
              .made_seconds = made_seconds,
              .deadline_seconds = made_seconds + 50};
  offer.job.bytes[0] = 7;
  return offer;
}

TEST(OfferText, HoldsAllOfAnOffer) {
  Offer offer = AnOffer(1000);
  offer.kind = OfferKind::kReclaim;
  offer.state = OfferState::kCountered;
  offer.terms.which = {1, 2};
  offer.terms.price = 0.5;
  offer.counter = {.ranks = 1, .which = {2}, .due_seconds = 2000, .bytes_per_second = 3};
  offer.concession = {.least_ranks = 1, .latest_due_seconds = 2000, .least_price = 0.25};
  offer.purpose = "maintenance \xff";
  offer.expected = {.step_seconds = 0.25, .confidence = 0.75};
  offer.reason = "later";
  offer.last_answer = UINT64_MAX;
  const std::optional<Offer> read = OfferIn(OfferText(offer));
  ASSERT_TRUE(read.has_value());
  offer.purpose = "maintenance \xef\xbf\xbd";
  EXPECT_EQ(*read, offer);
}

TEST(OfferText, IsRefusedWhereAFieldIsWrong) {
  const std::string good = OfferText(AnOffer(1000));
  ASSERT_TRUE(OfferIn(good).has_value());
  EXPECT_FALSE(OfferIn(std::string("{}")).has_value());
  EXPECT_FALSE(OfferIn(std::string("nonsense")).has_value());
  for (const auto& [from, to] :
       {std::pair("\"state\":0", "\"state\":8"), std::pair("\"kind\":0", "\"kind\":4"),
        std::pair("\"ranks\":2", "\"ranks\":513"), std::pair("\"which\":[]", "\"which\":[-1]"),
        std::pair("\"which\":[]", "\"which\":7"), std::pair("\"id\":\"offer-", "\"id\":\"Offer-"),
        std::pair("\"terms\":{", "\"terms\":7,\"x\":{")}) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, std::string(from).size(), to);
    EXPECT_FALSE(OfferIn(bad).has_value()) << bad;
  }
}

TEST(AnswerText, HoldsAllOfAnAnswer) {
  const OfferAnswer answer{.kind = OfferAnswer::Kind::kCounter,
                           .unique = 5,
                           .revision = 3,
                           .counter = {.ranks = 2, .which = {0, 4}, .due_seconds = 7, .price = 1},
                           .quiet_seconds = 60,
                           .reason = "fewer"};
  const std::optional<OfferAnswer> read = AnswerIn(AnswerText(answer));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(AnswerText(*read), AnswerText(answer));
  EXPECT_FALSE(AnswerIn("{}").has_value());
}

TEST(OfferBook, TakesCopiesThatAreNewerAndNoOthers) {
  RecordKeeper keeper;
  OfferBook book(&keeper);
  Offer offer = AnOffer(1000);
  ASSERT_NE(book.TakeCopy(offer), nullptr);
  EXPECT_EQ(book.TakeCopy(offer), nullptr) << "it says nothing new";
  offer.revision = 3;
  ASSERT_NE(book.TakeCopy(offer), nullptr);
  offer.revision = 2;
  EXPECT_EQ(book.TakeCopy(offer), nullptr) << "it comes late";
  offer.revision = 4;
  offer.tenant = Tenant(1001);
  EXPECT_EQ(book.TakeCopy(offer), nullptr) << "an id stands for one tenant's offer";
  EXPECT_EQ(book.Find(offer.id)->offer.revision, 3u);
}

TEST(OfferBook, NobodysCopiesReplaceAnOwnOffer) {
  RecordKeeper keeper;
  OfferBook book(&keeper);
  Offer offer = AnOffer(1000);
  ASSERT_TRUE(book.AddOwn(offer).ok());
  offer.revision = 9;
  EXPECT_EQ(book.TakeCopy(offer), nullptr);
}

TEST(OfferBook, OneTenantsCopiesPushOutNoneOfAnothers) {
  RecordKeeper keeper;
  OfferBook book(&keeper);
  const Offer honest = AnOffer(1001);
  ASSERT_NE(book.TakeCopy(honest), nullptr);
  for (size_t i = 0; i < 2 * OfferBook::kMostCopies; ++i) {
    book.TakeCopy(AnOffer(1000, 1000 + static_cast<double>(i)));
  }
  EXPECT_NE(book.Find(honest.id), nullptr);
  const std::string greedy = "uid 1000";
  const auto theirs = book.All([&](const Offer& one) { return one.tenant.name == greedy; });
  EXPECT_EQ(theirs.size(), OfferBook::kMostCopiesOfTenant);
}

TEST(OfferBook, FindsATenantsOwnByTheBeginningOfAnId) {
  RecordKeeper keeper;
  OfferBook book(&keeper);
  const Offer offer = AnOffer(1000);
  ASSERT_TRUE(book.AddOwn(offer).ok());
  const std::string owner = "uid 1000";
  const std::string other = "uid 1001";
  EXPECT_TRUE(book.FindNamed(&owner, offer.id.substr(0, 12)).ok());
  EXPECT_FALSE(book.FindNamed(&owner, "offer-").ok());
  EXPECT_EQ(book.FindNamed(&other, offer.id).status().code(), Code::kUnavailable);
  EXPECT_TRUE(book.FindNamed(nullptr, offer.id).ok());
}

TEST(OfferBook, HasALimitOfOpenOffersAndForgetsTheOldestThatHaveEnded) {
  RecordKeeper keeper;
  OfferBook book(&keeper);
  std::string first;
  for (size_t i = 0; i < OfferBook::kMostEnded + 10; ++i) {
    Offer offer = AnOffer(1000);
    const Result<OfferBook::Entry*> added = book.AddOwn(offer);
    ASSERT_TRUE(added.ok());
    if (i == 0) first = offer.id;
    offer.state = OfferState::kDeclined;
    offer.ended_seconds = 1000 + static_cast<double>(i);
    book.Change(**added, offer);
  }
  EXPECT_EQ(book.Find(first), nullptr);
  EXPECT_EQ(book.All([](const Offer&) { return true; }).size(), OfferBook::kMostEnded);
  for (size_t i = 0; i < OfferBook::kMostOpen; ++i) {
    ASSERT_TRUE(book.AddOwn(AnOffer(1000)).ok());
  }
  EXPECT_EQ(book.AddOwn(AnOffer(1000)).status().code(), Code::kInvalidUsage);
}

}  // namespace
}  // namespace harmonaize::daemon
