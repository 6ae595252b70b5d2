#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/offers/offer_book.h"
#include "daemon/offers/offer_record.h"
#include "daemon/offers/offer_rules.h"

namespace harmonaize::daemon {
namespace {

/// The daemon that has made an offer, another host of the job with a copy, and what is on its way
/// between them. A message may be lost, late, overtaken, or come many times.
class TwoDaemons {
 public:
  explicit TwoDaemons(uint32_t seed) : random_(seed), copies_(&keeper_) {
    offer_ = {.id = "offer-0123456789abcdef",
              .job = {.bytes = {7}},
              .kind = Chance(2) ? OfferKind::kGrow : OfferKind::kReclaim,
              .terms = {.ranks = 2, .due_seconds = 40},
              .made_seconds = now_,
              .deadline_seconds = 20,
              .can_be_refused = true,
              .ranks_before = 4};
    offer_.tenant.name = "uid 1000";
    Send();
  }

  void Go(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) GoOneStep();
    // In the end everything that was last sent arrives.
    Deliver(offers_.back());
    Check();
    ASSERT_NE(Copy(), nullptr);
    EXPECT_EQ(Copy()->state, offer_.state);
  }

 private:
  bool Chance(unsigned one_in) { return random_() % one_in == 0; }
  template <typename Value>
  const Value& AnyOf(const std::vector<Value>& values) {
    return values[random_() % values.size()];
  }

  void GoOneStep() {
    switch (random_() % 8) {
      case 0: now_ += 1; break;
      case 1: here_ = static_cast<int32_t>(2 + 2 * (random_() % 3)); break;
      case 2: GiveAnswer(); break;
      case 3:
      case 4:
        if (!answers_.empty()) TakeAnswer(AnyOf(answers_));
        break;
      case 5: TakeStep(); break;
      default: Deliver(AnyOf(offers_)); break;
    }
    Change(AsOf(offer_, now_, here_));
    Check();
  }

  /// The tenant answers what it sees at the other host.
  void GiveAnswer() {
    if (Copy() == nullptr) return;
    OfferAnswer answer{.kind = static_cast<OfferAnswer::Kind>(random_() % kOfferAnswerKindCount),
                       .unique = answers_.size() + 1,
                       .revision = Chance(2) ? Copy()->revision : 0};
    if (answer.kind == OfferAnswer::Kind::kCounter) answer.counter.ranks = 1;
    answers_.push_back(AnswerText(answer));
  }

  void TakeAnswer(const std::string& text) {
    const OfferAnswer answer = *AnswerIn(text);
    const Result<Offer> next = WithAnswer(AsOf(offer_, now_, here_), answer, now_, here_);
    if (next.ok()) Change(*next);
  }

  void TakeStep() {
    OfferStep step{.kind = static_cast<OfferStep::Kind>(random_() % 4), .terms = offer_.terms};
    step.terms.ranks = 3 - std::min(2, step.terms.ranks);
    if (step.kind == OfferStep::Kind::kWithdraw && !Chance(4)) return;
    const Result<Offer> next = WithStep(AsOf(offer_, now_, here_), step, now_, here_);
    if (next.ok()) Change(*next);
  }

  void Change(const Offer& next) {
    if (next.revision == offer_.revision) return;
    EXPECT_FALSE(offer_.has_ended()) << "what has ended stays as it is";
    offer_ = next;
    Send();
  }
  void Send() { offers_.push_back(OfferText(offer_)); }
  void Deliver(const std::string& text) { copies_.TakeCopy(*OfferIn(text)); }
  const Offer* Copy() {
    const OfferBook::Entry* const entry = copies_.Find(offer_.id);
    return entry == nullptr ? nullptr : &entry->offer;
  }

  /// The other host may be behind. It never sees an end that is not the end.
  void Check() {
    if (Copy() == nullptr) return;
    EXPECT_LE(Copy()->revision, offer_.revision);
    if (Copy()->has_ended()) {
      EXPECT_EQ(*Copy(), offer_);
    }
    const bool both_agreed = Copy()->state == OfferState::kAccepted;
    EXPECT_FALSE(both_agreed &&
                 (offer_.state == OfferState::kExpired || offer_.state == OfferState::kDeclined));
  }

  std::mt19937 random_;
  RecordKeeper keeper_;
  OfferBook copies_;
  Offer offer_;
  double now_ = 1;
  int32_t here_ = 4;
  std::vector<std::string> offers_;   // all that were sent
  std::vector<std::string> answers_;  // likewise
};

TEST(OfferDelivery, LostLateAndRepeatedMessagesLeaveBothSidesWithOneEnd) {
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    TwoDaemons(seed).Go(60);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
