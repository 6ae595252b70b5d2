#include "daemon/offers/offer_policy.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

constexpr double kNow = 1000;

Offer AnOffer(OfferKind kind, int32_t ranks, double due_seconds = kNow + 60) {
  return {.id = MakeOfferId(),
          .kind = kind,
          .terms = {.ranks = ranks, .due_seconds = due_seconds},
          .made_seconds = kNow,
          .deadline_seconds = due_seconds};
}

ElasticTerms Accepting() {
  return {.least_ranks = 2, .most_ranks = 8, .step = 2, .offers = ElasticTerms::Offers::kAccept};
}

TEST(OfferPolicy, AJobThatHasSaidNothingIsAsked) {
  EXPECT_FALSE(AnswerInAdvance(AnOffer(OfferKind::kGrow, 2), {}, 4, kNow).has_value());
}

TEST(OfferPolicy, WhatFitsIsAccepted) {
  for (const OfferKind kind : {OfferKind::kGrow, OfferKind::kReclaim, OfferKind::kMove}) {
    const auto answer = AnswerInAdvance(AnOffer(kind, 2), Accepting(), 4, kNow);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->kind, OfferAnswer::Kind::kAccept);
  }
}

TEST(OfferPolicy, OfWhatIsTooMuchAsManyAreAskedForAsFit) {
  const auto grow = AnswerInAdvance(AnOffer(OfferKind::kGrow, 7), Accepting(), 4, kNow);
  ASSERT_TRUE(grow.has_value());
  EXPECT_EQ(grow->kind, OfferAnswer::Kind::kCounter);
  EXPECT_EQ(grow->counter.ranks, 4);
  const auto reclaim = AnswerInAdvance(AnOffer(OfferKind::kReclaim, 4), Accepting(), 5, kNow);
  ASSERT_TRUE(reclaim.has_value());
  EXPECT_EQ(reclaim->counter.ranks, 2) << "three fit, and two are a multiple of the step";
}

TEST(OfferPolicy, WhatDoesNotFitIsDeclinedWhereItMayBe) {
  Offer offer = AnOffer(OfferKind::kGrow, 2);
  const auto declined = AnswerInAdvance(offer, Accepting(), 8, kNow);
  ASSERT_TRUE(declined.has_value());
  EXPECT_EQ(declined->kind, OfferAnswer::Kind::kDecline);
  offer = AnOffer(OfferKind::kReclaim, 2);
  offer.can_be_refused = false;
  EXPECT_FALSE(AnswerInAdvance(offer, Accepting(), 2, kNow).has_value());
}

TEST(OfferPolicy, MoreTimeIsAskedForWhereTheNoticeIsTooShort) {
  ElasticTerms terms = Accepting();
  terms.notice_seconds = 120;
  const auto answer = AnswerInAdvance(AnOffer(OfferKind::kReclaim, 2), terms, 4, kNow);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->kind, OfferAnswer::Kind::kCounter);
  EXPECT_EQ(answer->counter.due_seconds, kNow + 120);
  EXPECT_FALSE(answer->counter.ranks.has_value());
  const auto grow = AnswerInAdvance(AnOffer(OfferKind::kGrow, 2), terms, 4, kNow);
  EXPECT_EQ(grow->kind, OfferAnswer::Kind::kAccept) << "ranks that come need no notice";
}

TEST(OfferPolicy, AJobThatDeclinesAllDeclinesWhatMayBeDeclined) {
  ElasticTerms terms;
  terms.offers = ElasticTerms::Offers::kDecline;
  EXPECT_EQ(AnswerInAdvance(AnOffer(OfferKind::kGrow, 1), terms, 4, kNow)->kind,
            OfferAnswer::Kind::kDecline);
}

}  // namespace
}  // namespace harmonaize::daemon
