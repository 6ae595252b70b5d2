#include "daemon/offers/offer_rules.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/offers/offer_record.h"

namespace harmonaize::daemon {
namespace {

using enum OfferState;

constexpr double kMade = 1000;
constexpr double kDeadline = 1100;
constexpr double kDue = 1200;

Offer Grow() {
  return {.id = "offer-0123456789abcdef",
          .job = {.bytes = {7}},
          .kind = OfferKind::kGrow,
          .terms = {.ranks = 2, .due_seconds = kDue},
          .made_seconds = kMade,
          .deadline_seconds = kDeadline,
          .ranks_before = 4};
}

Offer Reclaim() {
  Offer offer = Grow();
  offer.kind = OfferKind::kReclaim;
  offer.terms.which = {1, 3};
  return offer;
}

OfferAnswer AnAnswer(OfferAnswer::Kind kind, uint64_t unique = 7) {
  return {.kind = kind, .unique = unique};
}

Result<Offer> Accepted(const Offer& offer, double now = kMade + 1, int32_t here = 4) {
  return WithAnswer(offer, AnAnswer(OfferAnswer::Kind::kAccept), now, here);
}

TEST(OfferRules, PlacesThatAreTakenAreFulfilledOnceTheRanksHaveCome) {
  const Result<Offer> accepted = Accepted(Grow());
  ASSERT_TRUE(accepted.ok()) << accepted.status().message();
  EXPECT_EQ(accepted->state, kAccepted);
  EXPECT_EQ(AsOf(*accepted, kMade + 2, 5).state, kAccepted);
  EXPECT_EQ(AsOf(*accepted, kMade + 2, 6).state, kFulfilled);
}

TEST(OfferRules, PlacesThatNobodyComesToAreBrokenByTheTenant) {
  const Offer late = AsOf(*Accepted(Grow()), kDue, 5);
  EXPECT_EQ(late.state, kBroken);
  EXPECT_EQ(late.broken_by, OfferParty::kTenant);
}

TEST(OfferRules, PlacesThatAreTakenBackAfterTheyWereAcceptedAreBrokenByTheProvider) {
  const Result<Offer> broken =
      WithStep(*Accepted(Grow()), {.kind = OfferStep::Kind::kWithdraw}, kMade + 2, 4);
  ASSERT_TRUE(broken.ok());
  EXPECT_EQ(broken->state, kBroken);
  EXPECT_EQ(broken->broken_by, OfferParty::kProvider);
}

TEST(OfferRules, AReclaimThatIsNotNeededAnyMoreIsWithdrawnEvenIfItWasAccepted) {
  const Result<Offer> withdrawn =
      WithStep(*Accepted(Reclaim()), {.kind = OfferStep::Kind::kWithdraw}, kMade + 2, 4);
  ASSERT_TRUE(withdrawn.ok());
  EXPECT_EQ(withdrawn->state, kWithdrawn);
}

TEST(OfferRules, RanksThatLeaveCountFromWhenTheOfferWasMade) {
  const Result<Offer> accepted = Accepted(Reclaim(), kMade + 1, 2);
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(accepted->state, kFulfilled) << "the two had left before the job answered";
}

TEST(OfferRules, AnAnswerAfterTheDeadlineIsRefused) {
  for (const auto kind : {OfferAnswer::Kind::kAccept, OfferAnswer::Kind::kDecline}) {
    const Result<Offer> late = WithAnswer(Grow(), AnAnswer(kind), kDeadline, 4);
    ASSERT_FALSE(late.ok());
    EXPECT_NE(late.status().message().find("has passed"), std::string::npos);
  }
}

TEST(OfferRules, AnAnswerThatComesTwiceHasOneEffect) {
  const OfferAnswer counter{
      .kind = OfferAnswer::Kind::kCounter, .unique = 9, .counter = {.ranks = 1}};
  const Result<Offer> once = WithAnswer(Grow(), counter, kMade + 1, 4);
  ASSERT_TRUE(once.ok());
  const Result<Offer> twice = WithAnswer(*once, counter, kMade + 2, 4);
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(*once, *twice);
  EXPECT_EQ(twice->rounds, 1);
}

TEST(OfferRules, AnAnswerToAnOfferThatHasChangedIsRefused) {
  OfferAnswer answer = AnAnswer(OfferAnswer::Kind::kAccept);
  answer.revision = 1;
  const Result<Offer> changed = WithStep(
      Grow(), {.kind = OfferStep::Kind::kPropose, .terms = {.ranks = 8, .due_seconds = kDue}},
      kMade + 1, 4);
  ASSERT_TRUE(changed.ok());
  const Result<Offer> answered = WithAnswer(*changed, answer, kMade + 2, 4);
  ASSERT_FALSE(answered.ok());
  EXPECT_NE(answered.status().message().find("revision 2"), std::string::npos);
}

TEST(OfferRules, ThereAreNoMoreCounterProposalsThanMayBe) {
  Offer offer = Grow();
  offer.terms.ranks = 100;
  for (int round = 0; round < offer.most_rounds; ++round) {
    const OfferAnswer counter{.kind = OfferAnswer::Kind::kCounter,
                              .unique = static_cast<uint64_t>(round + 1),
                              .counter = {.ranks = round + 1}};
    const Result<Offer> next = WithAnswer(offer, counter, kMade + 1, 4);
    ASSERT_TRUE(next.ok()) << next.status().message();
    offer = *WithStep(*next, {.kind = OfferStep::Kind::kKeep}, kMade + 1, 4);
  }
  const OfferAnswer more{
      .kind = OfferAnswer::Kind::kCounter, .unique = 99, .counter = {.ranks = 50}};
  const Result<Offer> refused = WithAnswer(offer, more, kMade + 1, 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("as many as may be"), std::string::npos);
  EXPECT_TRUE(Accepted(offer).ok());
}

TEST(OfferRules, ACounterProposalWithinTheConcessionIsTaken) {
  Offer offer = Grow();
  offer.terms.ranks = 8;
  offer.concession = {.least_ranks = 4, .latest_due_seconds = kDue + 100};
  const auto countered = [&](OfferAnswer::Counter counter) {
    return WithAnswer(
        offer, {.kind = OfferAnswer::Kind::kCounter, .unique = 3, .counter = std::move(counter)},
        kMade + 1, 4);
  };
  EXPECT_EQ(countered({.ranks = 4})->state, kAccepted);
  EXPECT_EQ(countered({.ranks = 4})->RanksAfter(), 8);
  EXPECT_EQ(countered({.ranks = 3})->state, kCountered);
  EXPECT_EQ(countered({.ranks = 9})->state, kCountered);
  EXPECT_EQ(countered({.due_seconds = kDue + 100})->state, kAccepted);
  EXPECT_EQ(countered({.due_seconds = kDue + 101})->state, kCountered);
  EXPECT_EQ(countered({.price = 1})->state, kCountered);
}

TEST(OfferRules, ACounterProposalThatAsksForTheSameIsRefused) {
  const OfferAnswer same{.kind = OfferAnswer::Kind::kCounter, .unique = 3, .counter = {.ranks = 2}};
  EXPECT_EQ(WithAnswer(Grow(), same, kMade + 1, 4).status().code(), Code::kInvalidArgument);
}

TEST(OfferRules, ACounterProposalForATimeThatHasPassedIsNotTaken) {
  const OfferAnswer counter{.kind = OfferAnswer::Kind::kCounter,
                            .unique = 9,
                            .counter = {.ranks = 1, .due_seconds = kMade + 10}};
  const Result<Offer> countered = WithAnswer(Grow(), counter, kMade + 1, 4);
  ASSERT_TRUE(countered.ok());
  const OfferStep take{.kind = OfferStep::Kind::kTake};
  EXPECT_EQ(WithStep(*countered, take, kMade + 9, 4)->state, kAccepted);
  const Result<Offer> late = WithStep(*countered, take, kMade + 10, 4);
  ASSERT_FALSE(late.ok()) << "the tenant would have broken it at once";
  EXPECT_NE(late.status().message().find("a time that has passed"), std::string::npos);
  EXPECT_EQ(WithStep(*countered, {.kind = OfferStep::Kind::kKeep}, kMade + 10, 4)->state, kOffered);
}

TEST(OfferRules, NobodyIsAskedForLongerThanUntilWhatIsDue) {
  for (const Offer& offer : {Grow(), Reclaim()}) {
    OfferTerms sooner = offer.terms;
    sooner.due_seconds = kMade + 10;
    const Result<Offer> proposed =
        WithStep(offer, {.kind = OfferStep::Kind::kPropose, .terms = sooner}, kMade + 1, 4);
    ASSERT_TRUE(proposed.ok()) << proposed.status().message();
    EXPECT_EQ(proposed->deadline_seconds, kMade + 10);
  }
}

TEST(OfferRules, OneThatDeclinesSaysWhenItMayBeAskedAgain) {
  OfferAnswer decline = AnAnswer(OfferAnswer::Kind::kDecline);
  decline.quiet_seconds = 3600;
  const Result<Offer> declined = WithAnswer(Grow(), decline, kMade + 1, 4);
  ASSERT_TRUE(declined.ok());
  EXPECT_EQ(declined->state, kDeclined);
  EXPECT_EQ(declined->quiet_until_seconds, kMade + 3601);
}

TEST(OfferRules, AReclaimThatCannotBeRefusedDoesNotExpire) {
  Offer offer = Reclaim();
  offer.can_be_refused = false;
  offer.deadline_seconds = kDue;
  EXPECT_EQ(WithAnswer(offer, AnAnswer(OfferAnswer::Kind::kDecline), kMade + 1, 4).status().code(),
            Code::kInvalidUsage);
  EXPECT_EQ(AsOf(offer, kDue - 1, 4).state, kOffered);
  EXPECT_EQ(AsOf(offer, kDue - 1, 2).state, kFulfilled);
  EXPECT_EQ(AsOf(offer, kDue, 4).state, kBroken);
  offer.is_enforced = true;
  EXPECT_FALSE(IsToBeEnforced(offer, kDue - 1, 4));
  EXPECT_TRUE(IsToBeEnforced(offer, kDue, 4));
  EXPECT_EQ(AsOf(offer, kDue, 4).state, kOffered);
  EXPECT_EQ(AfterForce(offer, kDue).state, kFulfilled);
  const Offer agreed = *Accepted(offer);
  EXPECT_TRUE(IsToBeEnforced(agreed, kDue, 4));
  EXPECT_EQ(AfterForce(agreed, kDue).broken_by, OfferParty::kTenant);
}

TEST(OfferRules, TermsThatNoOfferCanHaveAreRefused) {
  const auto check = [](OfferKind kind, OfferTerms terms) {
    terms.due_seconds = terms.due_seconds == 0 ? kDue : terms.due_seconds;
    return CheckTerms(kind, terms, kMade).ok();
  };
  EXPECT_TRUE(check(OfferKind::kReclaim, {.ranks = 2, .which = {0, 5}}));
  EXPECT_FALSE(check(OfferKind::kReclaim, {.ranks = 0}));
  EXPECT_FALSE(check(OfferKind::kReclaim, {.ranks = kMostOfferedRanks + 1}));
  EXPECT_FALSE(check(OfferKind::kReclaim, {.ranks = 1, .which = {0, 5}}));
  EXPECT_FALSE(check(OfferKind::kReclaim, {.ranks = 2, .which = {5, 5}}));
  EXPECT_FALSE(check(OfferKind::kReclaim, {.ranks = 2, .which = {-1, 5}}));
  EXPECT_FALSE(check(OfferKind::kGrow, {.ranks = 1, .which = {1}}));
  EXPECT_FALSE(check(OfferKind::kGrow, {.ranks = 1, .due_seconds = kMade}));
  EXPECT_FALSE(check(OfferKind::kGrow, {.ranks = 1, .price = -1}));
  EXPECT_FALSE(check(OfferKind::kSlowDown, {}));
  EXPECT_TRUE(check(OfferKind::kSlowDown, {.bytes_per_second = 1e6}));
}

// ---------------------------------------------------------------------------------------------
// All that can happen, in every order

/// What can happen to an offer. Answers and steps may come in any state, twice, and late.
enum class Happening {
  kAccept,
  kDecline,
  kCounter,
  kTake,
  kKeep,
  kPropose,
  kWithdraw,
  kDeadlinePasses,
  kDuePasses,
  kRanksChange,
  kAnswerAgain,
  kJobEnds,
};
constexpr int kHappenings = 12;

/// The two parties' view of one offer: the maker's, and what the tenant was told last.
struct World {
  Offer offer;
  double now = kMade + 1;
  int32_t here = 4;
  uint64_t answers = 0;  ///< Given so far.
  OfferAnswer last = {};

  /// Worlds that go on alike have the same key.
  auto Key() const { return std::tuple(OfferTextWithoutRevision(), now, here, answers); }
  std::string OfferTextWithoutRevision() const {
    Offer alike = offer;
    alike.revision = 1;
    return OfferText(alike);
  }
};

OfferAnswer NextAnswer(World& world, OfferAnswer::Kind kind) {
  OfferAnswer answer{.kind = kind, .unique = ++world.answers};
  if (kind == OfferAnswer::Kind::kCounter) answer.counter.ranks = 1;
  world.last = answer;
  return answer;
}

void Answer(World& world, const OfferAnswer& answer) {
  world.offer = AsOf(world.offer, world.now, world.here);
  const Result<Offer> next = WithAnswer(world.offer, answer, world.now, world.here);
  if (next.ok()) world.offer = *next;
}

void Step(World& world, OfferStep::Kind kind) {
  world.offer = AsOf(world.offer, world.now, world.here);
  OfferStep step{.kind = kind, .terms = world.offer.terms};
  step.terms.ranks = step.terms.ranks == 2 ? 1 : 2;
  step.terms.which.clear();
  const Result<Offer> next = WithStep(world.offer, step, world.now, world.here);
  if (next.ok()) world.offer = *next;
}

World After(World world, Happening happening) {
  switch (happening) {
    case Happening::kAccept: Answer(world, NextAnswer(world, OfferAnswer::Kind::kAccept)); break;
    case Happening::kDecline: Answer(world, NextAnswer(world, OfferAnswer::Kind::kDecline)); break;
    case Happening::kCounter: Answer(world, NextAnswer(world, OfferAnswer::Kind::kCounter)); break;
    case Happening::kAnswerAgain:
      if (world.answers > 0) Answer(world, world.last);
      break;
    case Happening::kTake: Step(world, OfferStep::Kind::kTake); break;
    case Happening::kKeep: Step(world, OfferStep::Kind::kKeep); break;
    case Happening::kPropose: Step(world, OfferStep::Kind::kPropose); break;
    case Happening::kWithdraw: Step(world, OfferStep::Kind::kWithdraw); break;
    case Happening::kDeadlinePasses: world.now = std::max(world.now, kDeadline); break;
    case Happening::kDuePasses: world.now = std::max(world.now, kDue); break;
    case Happening::kRanksChange:
      world.here = world.here == 4 ? (world.offer.kind == OfferKind::kGrow ? 6 : 2) : 4;
      break;
    case Happening::kJobEnds: world.offer = AfterJob(world.offer, world.now); break;
  }
  return world;
}

void CheckStep(const World& before, const World& after, Happening happening) {
  const Offer& was = before.offer;
  const Offer& is = after.offer;
  // What has ended stays as it is: nothing is both accepted and expired.
  if (was.has_ended()) {
    EXPECT_EQ(was, is) << static_cast<int>(happening);
  }
  if (was.state == kAccepted) {
    EXPECT_NE(is.state, kExpired);
    EXPECT_NE(is.state, kDeclined);
    EXPECT_NE(is.state, kOffered);
    EXPECT_NE(is.state, kCountered);
  }
  EXPECT_GE(is.revision, was.revision);
  if (!(is == was)) {
    EXPECT_GT(is.revision, was.revision) << "a copy would not follow";
  }
  EXPECT_LE(is.rounds, is.most_rounds);
  // Nobody agrees after the deadline.
  if (was.is_open() && is.state == kAccepted) {
    EXPECT_LT(after.now, was.deadline_seconds);
  }
  EXPECT_EQ(is.state == kBroken, is.broken_by != OfferParty::kNobody);
  EXPECT_EQ(is.has_ended(), is.ended_seconds != 0);
  EXPECT_EQ(OfferIn(OfferText(is)), is) << "it is kept as it is";
}

/// Goes through all that can follow from an offer, with up to three answers. Returns the states
/// that were reached.
std::set<OfferState> GoThroughAll(const Offer& offer) {
  std::map<decltype(World().Key()), bool> seen;
  std::deque<World> open{{.offer = offer}};
  std::set<OfferState> reached;
  while (!open.empty()) {
    const World world = open.front();
    open.pop_front();
    if (!seen.emplace(world.Key(), true).second) continue;
    reached.insert(world.offer.state);
    for (int i = 0; i < kHappenings; ++i) {
      const auto happening = static_cast<Happening>(i);
      const World next = After(world, happening);
      CheckStep(world, next, happening);
      if (testing::Test::HasFailure()) return reached;
      if (next.answers <= 3) open.push_back(next);
    }
  }
  return reached;
}

TEST(OfferRules, NothingGoesTwoWaysWhateverHappensInWhicheverOrder) {
  Offer grow = Grow();
  grow.most_rounds = 2;
  const std::set<OfferState> all = {kOffered, kCountered, kAccepted,  kDeclined,
                                    kExpired, kWithdrawn, kFulfilled, kBroken};
  EXPECT_EQ(GoThroughAll(grow), all);
  grow.concession.least_ranks = 1;
  GoThroughAll(grow);
  Offer reclaim = Reclaim();
  reclaim.most_rounds = 2;
  EXPECT_EQ(GoThroughAll(reclaim), all);
  reclaim.can_be_refused = false;
  reclaim.deadline_seconds = kDue;
  const std::set<OfferState> forced = GoThroughAll(reclaim);
  EXPECT_FALSE(forced.contains(kExpired));
  EXPECT_FALSE(forced.contains(kDeclined));
  Offer slow = Grow();
  slow.kind = OfferKind::kSlowDown;
  slow.terms.bytes_per_second = 1e6;
  slow.most_rounds = 1;
  GoThroughAll(slow);
}

}  // namespace
}  // namespace harmonaize::daemon
