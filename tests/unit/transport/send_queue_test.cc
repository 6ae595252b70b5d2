// Whose turn it is to send over a connection.

#include "src/transport/queue/send_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/transport/queue/tenant_mix.h"

namespace harmonaize::transport {
namespace {

class SendQueueTest : public ::testing::Test {
 protected:
  Request* Make(uint32_t tenant, float weight, size_t bytes, uint64_t operation = 0) {
    Request* request = &requests_.emplace_back();
    request->share = {tenant, weight};
    request->tag.operation = operation == 0 ? tenant : operation;
    request->size = bytes;
    return request;
  }
  /// Sends one turn and refills it, so that its tenant always has as much to send.
  void Turn(size_t frame) {
    const SendQueue::Turn turn = queue_.Next();
    ASSERT_NE(turn.send, nullptr);
    const size_t bytes = turn.bulk ? frame : turn.send->size;
    queue_.Charge(*turn.send, bytes);
    sent_[turn.send->share.tenant] += bytes;
    turn.bulk ? queue_.ReturnBulk(turn.send) : queue_.Push(turn.send);
  }

  std::deque<Request> requests_;
  SendQueue queue_;
  std::map<uint32_t, size_t> sent_;
};

TEST_F(SendQueueTest, OneTenantsSmallMessagesGoInOrderBeforeLargeOnes) {
  Request* large = Make(7, 1, 1 << 20);
  Request* first = Make(7, 1, 100);
  Request* second = Make(7, 1, 100);
  queue_.PushBulk(large);
  queue_.Push(first);
  queue_.Push(second);
  EXPECT_EQ(queue_.Next().send, first);
  EXPECT_EQ(queue_.Next().send, second);
  const SendQueue::Turn turn = queue_.Next();
  EXPECT_EQ(turn.send, large);
  EXPECT_TRUE(turn.bulk);
  EXPECT_EQ(queue_.Next().send, nullptr);
}

TEST_F(SendQueueTest, TenantsShareByWeightWhateverTheySend) {
  // One has many small messages, one a few of all sizes, one several large ones.
  for (int i = 0; i < 100; ++i) queue_.Push(Make(1, 1, 64));
  for (size_t bytes = 1; bytes < 64 << 10; bytes *= 2) queue_.Push(Make(2, 2, bytes));
  for (uint64_t operation = 1; operation < 6; ++operation) {
    queue_.PushBulk(Make(3, 4, 1 << 30, operation));
  }
  for (int i = 0; i < 50'000; ++i) Turn(64 << 10);
  const auto one = static_cast<double>(sent_[1]);
  EXPECT_NEAR(static_cast<double>(sent_[2]) / one, 2, 0.1);
  EXPECT_NEAR(static_cast<double>(sent_[3]) / one, 4, 0.2);
}

TEST_F(SendQueueTest, WhoCameBackGoesFirstUntilItHasCaughtUp) {
  queue_.PushBulk(Make(1, 1, 1 << 30));
  for (int i = 0; i < 100; ++i) Turn(64 << 10);
  // Never seen before: nothing to its credit. It takes turns.
  Request* rare = Make(2, 1, 64 << 10);
  queue_.Push(rare);
  sent_.clear();
  for (int i = 0; i < 10; ++i) Turn(64 << 10);
  EXPECT_EQ(sent_[1], sent_[2]);
  // Back after a pause, it goes first, but for no longer than its credit lasts.
  rare->Unlink();
  for (int i = 0; i < 1000; ++i) Turn(64 << 10);
  sent_.clear();
  queue_.Push(rare);
  while (sent_[1] == 0) Turn(64 << 10);
  EXPECT_NEAR(static_cast<double>(sent_[2]), FairTurns<FairTurn>::kCredit, 128 << 10);
}

TEST_F(SendQueueTest, JobsOfATenantShareAlike) {
  for (uint64_t job = 1; job <= 3; ++job) {
    for (uint64_t i = 0; i < job; ++i) {
      Request* request = Make(1, 1, 1 << 30, 10 * job + i);
      request->share.job = job;
      queue_.PushBulk(request);
    }
  }
  std::map<uint64_t, int> turns;
  for (int i = 0; i < 300; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    queue_.Charge(*turn.send, 64 << 10);
    ++turns[turn.send->share.job];
    queue_.ReturnBulk(turn.send);
  }
  EXPECT_EQ(turns[1], 100);
  EXPECT_EQ(turns[2], 100);
}

TEST_F(SendQueueTest, WhoIsNearerToItsEndGoesFirst) {
  queue_.SetRate(1e9);
  Request* far = Make(1, 1, 8 << 20);
  Request* near = Make(2, 1, 8 << 20);
  far->left = 8 << 20;
  near->left = 4 << 20;
  queue_.PushBulk(far);
  queue_.PushBulk(near);
  for (; near->left > 0; near->left -= 64 << 10) Turn(64 << 10);
  EXPECT_EQ(sent_[1], 0u);
  // Of those who are about as far, the same everywhere.
  near->left = 7 << 20;
  sent_.clear();
  for (int i = 0; i < 10; ++i) Turn(64 << 10);
  EXPECT_EQ(sent_[2], 0u);
}

TEST_F(SendQueueTest, NobodyGetsFurtherAheadThanTheLead) {
  queue_.SetRate(40e6);
  const double lead = 40e6 * SendQueue::kLeadSeconds;
  for (const float weight : {1.0F, 4.0F}) {
    Request* small = Make(1 + static_cast<uint32_t>(weight), weight, 1 << 20);
    Request* large = Make(20 + static_cast<uint32_t>(weight), 1, 64 << 20);
    small->left = 1 << 20;
    large->left = 64 << 20;
    queue_.PushBulk(small);
    queue_.PushBulk(large);
    sent_.clear();
    for (int i = 0; i < 10'000; ++i) Turn(64 << 10);
    const double ahead = static_cast<double>(sent_[small->share.tenant]) -
                         weight * static_cast<double>(sent_[large->share.tenant]);
    EXPECT_NEAR(ahead, lead, weight * (128 << 10)) << weight;
    small->Unlink();
    large->Unlink();
  }
}

// Two jobs that each send a burst, pause, and send again, over a connection of a frame a tick.
TEST_F(SendQueueTest, BurstsThatCollideSlideApart) {
  constexpr int kBurst = 100;
  constexpr int kPause = 150;
  constexpr size_t kFrame = 64 << 10;
  queue_.SetRate(kBurst * kFrame / SendQueue::kLeadSeconds);
  struct Job {
    Request* request;
    int resumes = 0;
    int bursts = 0;
  };
  std::vector<Job> jobs = {{Make(1, 1, kBurst * kFrame)}, {Make(2, 1, kBurst * kFrame)}};
  for (int now = 0; now < 20 * (kBurst + kPause); ++now) {
    for (Job& job : jobs) {
      if (job.request->linked() || now < job.resumes) continue;
      job.request->left = kBurst * kFrame;
      queue_.PushBulk(job.request);
    }
    const SendQueue::Turn turn = queue_.Next();
    if (turn.send == nullptr) continue;
    queue_.Charge(*turn.send, kFrame);
    turn.send->left -= kFrame;
    if (turn.send->left > 0) {
      queue_.ReturnBulk(turn.send);
      continue;
    }
    Job& done = jobs[turn.send->share.tenant - 1];
    done.resumes = now + 1 + kPause;
    ++done.bursts;
  }
  // Alone each would have made 20; sharing all the time, 14.
  EXPECT_GE(jobs[0].bursts, 19);
  EXPECT_GE(jobs[1].bursts, 19);
}

TEST_F(SendQueueTest, RequestsMayLeave) {
  Request* small = Make(1, 1, 64);
  Request* large = Make(2, 1, 1 << 20);
  queue_.Push(small);
  queue_.PushBulk(large);
  small->Unlink();
  large->Unlink();
  EXPECT_EQ(queue_.Next().send, nullptr);
  queue_.Push(small);
  EXPECT_EQ(queue_.Next().send, small);
}

TEST_F(SendQueueTest, ManyTenantsComeAndGo) {
  for (uint32_t tenant = 1; tenant < 1000; ++tenant) {
    Request* request = Make(tenant, 1, 1 << 20);
    queue_.Push(request);
    const SendQueue::Turn turn = queue_.Next();
    EXPECT_EQ(turn.send, request);
    queue_.Charge(*request, request->size);
  }
}

// A send that leaves may have been the one by which its job had its place.
TEST_F(SendQueueTest, WhoseFirstSendHasLeftGoesByTheNextOne) {
  queue_.SetRate(1e9);
  Request* nearest = Make(1, 1, 1 << 20, 1);
  Request* far = Make(1, 1, 1 << 20, 2);
  Request* near = Make(2, 1, 1 << 20, 3);
  nearest->left = 1 << 20;
  far->left = 64 << 20;
  near->left = 8 << 20;
  for (Request* send : {nearest, far, near}) queue_.PushBulk(send);
  nearest->Unlink();
  EXPECT_EQ(queue_.Next().send, near);
  EXPECT_EQ(queue_.Next().send, far);
}

TEST_F(SendQueueTest, AJobMayComeToAnotherOwner) {
  Request* first = Make(1, 1, 64);
  Request* second = Make(1, 1, 64);
  first->share.owner = 7;
  second->share.owner = 8;
  queue_.Push(first);
  queue_.Push(second);
  for (Request* send : {first, second}) {
    EXPECT_EQ(queue_.Next().send, send) << "in order within the job";
    queue_.Charge(*send, 64);
  }
  EXPECT_EQ(queue_.Next().send, nullptr);
}

// Neither owners nor the number of a tenant's jobs that each has make a difference.
TEST_F(SendQueueTest, JobsShareAlikeWhoeverOwnsThem) {
  for (uint64_t job = 1; job <= 5; ++job) {
    Request* send = Make(1, 1, 1 << 30, job);
    send->share.job = job;
    send->share.owner = job == 1 ? 7 : 8;
    queue_.PushBulk(send);
  }
  std::map<uint64_t, int> turns;
  for (int i = 0; i < 500; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    queue_.Charge(*turn.send, 64 << 10);
    ++turns[turn.send->share.job];
    queue_.ReturnBulk(turn.send);
  }
  for (uint64_t job = 1; job <= 5; ++job) EXPECT_EQ(turns[job], 100) << job;
}

// The bound holds among jobs of one tenant, too, whoever owns them.
TEST_F(SendQueueTest, NoJobGetsFurtherAheadThanTheLeadWhoeverOwnsThem) {
  queue_.SetRate(40e6);
  std::vector<Request*> sends;
  for (uint64_t job = 1; job <= 4; ++job) {
    Request* send = sends.emplace_back(Make(1, 1, 1 << 30, job));
    send->share.job = job;
    send->share.owner = 1 + job % 2;
    send->left = (size_t{1} << 20) << (2 * job);
    queue_.PushBulk(send);
  }
  std::map<uint64_t, double> sent;
  for (int i = 0; i < 10'000; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    queue_.Charge(*turn.send, 64 << 10);
    sent[turn.send->share.job] += 64 << 10;
    queue_.ReturnBulk(turn.send);
    for (uint64_t job = 1; job <= 4; ++job) {
      ASSERT_LE(sent[job] - sent[4], 40e6 * SendQueue::kLeadSeconds + (64 << 10)) << job;
    }
  }
  EXPECT_GT(sent[1], sent[4]);
}

/// Called when a tenant may go on.
class Writer final : public Poller::Handler {
 public:
  void OnReady(uint32_t /*events*/) override {}
  void OnLater() override { ++called; }
  int called = 0;
};

TEST_F(SendQueueTest, WhoIsHeldBackLetsTheOthersPass) {
  Result<std::unique_ptr<Poller>> poller = Poller::Create();
  ASSERT_TRUE(poller.ok());
  Writer writer;
  RailPaces paces(poller->get());
  Request* held_back = Make(1, 8, 64 << 10);
  held_back->share.owner = 7;
  queue_.Push(held_back);
  queue_.Push(Make(2, 1, 64 << 10));
  paces.Set({{1, 7, Pace::kLeastRate}});
  queue_.SetPaces(paces, &writer);
  paces.Of(1, 7)->Charge(size_t{1} << 40);
  for (int i = 0; i < 20; ++i) Turn(64 << 10);
  EXPECT_EQ(sent_[1], 0u);
  // Alone it waits all the same.
  requests_[1].Unlink();
  EXPECT_EQ(queue_.Next().send, nullptr);
  paces.Set({});
  queue_.SetPaces(paces, &writer);
  Turn(64 << 10);
  EXPECT_GT(sent_[1], 0u);
}

// A tenant that is held back gains nothing by another owner, nor by one with another priority. The
// daemon's own messages are not held back, whatever tenant they are counted for.
TEST_F(SendQueueTest, ATenantIsHeldBackWithAllItsOwners) {
  Result<std::unique_ptr<Poller>> poller = Poller::Create();
  ASSERT_TRUE(poller.ok());
  Writer writer;
  RailPaces paces(poller->get());
  paces.Set({{1, 0, Pace::kLeastRate}});
  queue_.SetPaces(paces, &writer);
  paces.OfTenant(1)->Charge(size_t{1} << 40);
  Request* first = Make(1, 8, 64 << 10);
  first->share.owner = 7;
  Request* second = Make(1, 8, 64 << 10);
  second->share.owner = 8;
  second->share.priority = 1;
  Request* own = Make(1, 1, 64 << 10);
  Request* stranger = Make(2, 1, 64 << 10);
  stranger->share.owner = 7;
  for (Request* send : {first, second, own, stranger}) queue_.Push(send);
  std::set<const Request*> sent;
  for (int i = 0; i < 2; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    ASSERT_NE(turn.send, nullptr);
    queue_.Charge(*turn.send, 64 << 10);
    sent.insert(turn.send);
  }
  EXPECT_EQ(sent, (std::set<const Request*>{own, stranger}));
  EXPECT_EQ(queue_.Next().send, nullptr);
  paces.Set({});
  queue_.SetPaces(paces, &writer);
  EXPECT_NE(queue_.Next().send, nullptr);
  EXPECT_NE(queue_.Next().send, nullptr);
}

TEST_F(SendQueueTest, PrioritiesOfOneTenantShareAsTenantsDo) {
  Request* low = Make(1, 1, 1 << 30, 1);
  Request* other_low = Make(1, 1, 1 << 30, 2);
  Request* high = Make(1, 1000, 1 << 30, 3);
  Request* strangers = Make(2, 1, 1 << 30, 4);
  low->share.job = 1;
  other_low->share.job = 2;
  high->share.job = 3;
  high->share.priority = 1;
  for (Request* send : {low, other_low, high, strangers}) queue_.PushBulk(send);
  std::map<const Request*, int> turns;
  for (int i = 0; i < 100'200; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    queue_.Charge(*turn.send, 64 << 10);
    ++turns[turn.send];
    queue_.ReturnBulk(turn.send);
  }
  EXPECT_NEAR(turns[high], 100'000, 5);
  EXPECT_NEAR(turns[strangers], 100, 5);
  EXPECT_NEAR(turns[low], 50, 5);
  EXPECT_NEAR(turns[other_low], 50, 5);
}

// After much was sent by a weight of 1 the flows of the largest weight still take turns.
TEST_F(SendQueueTest, LargeWeightsShareAfterALongTime) {
  queue_.PushBulk(Make(1, 1, 1 << 30));
  for (int i = 0; i < 100'000; ++i) Turn(1 << 30);
  queue_.PushBulk(Make(2, static_cast<float>(kMostWeight), 1 << 30));
  queue_.PushBulk(Make(3, static_cast<float>(kMostWeight), 1 << 30));
  for (int i = 0; i < 100; ++i) Turn(16 << 10);
  sent_.clear();
  for (int i = 0; i < 1000; ++i) Turn(16 << 10);
  EXPECT_NEAR(static_cast<double>(sent_[2]), static_cast<double>(sent_[3]), 32 << 10);
}

/// A queue on a device that keeps floors and caps.
class OwnerRatesQueueTest : public SendQueueTest {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Poller>> poller = Poller::Create();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
    rates_ = std::make_unique<OwnerRates>(poller_.get());
    queue_.SetRates(rates_.get(), &writer_);
  }

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<OwnerRates> rates_;
  Writer writer_;
};

TEST_F(OwnerRatesQueueTest, WhoHasReachedItsCapLetsTheOthersPass) {
  Request* capped = Make(1, 1000, 64 << 10, 1);
  Request* same_owner = Make(1, 1000, 64 << 10, 2);
  Request* other = Make(1, 1, 64 << 10, 3);
  capped->share = {1, 1000, 1, 7, 1, 0, Pace::kLeastRate};
  same_owner->share = {1, 1000, 2, 7, 1, 0, Pace::kLeastRate};
  other->share = {1, 1, 3, 8, 0, 0, 0};
  for (Request* send : {capped, same_owner, other}) queue_.Push(send);
  ASSERT_NE(rates_->Of(1, 7), nullptr);
  EXPECT_EQ(rates_->Of(1, 8), nullptr);
  rates_->Of(1, 7)->Charge(size_t{1} << 40);  // months
  for (int i = 0; i < 20; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    ASSERT_EQ(turn.send, other);
    queue_.Charge(*turn.send, 64 << 10);
    queue_.Push(turn.send);
  }
  other->Unlink();
  EXPECT_EQ(queue_.Next().send, nullptr);
  // A message without a cap lifts it.
  Request* lifted = Make(1, 1000, 64 << 10, 1);
  lifted->share = {1, 1000, 1, 7, 1, 0, 0};
  queue_.Push(lifted);
  EXPECT_NE(queue_.Next().send, nullptr);
}

TEST_F(OwnerRatesQueueTest, WhoIsBehindItsFloorGoesFirstButNotAlways) {
  constexpr float kAlwaysBehind = 1e18F;
  Request* light = Make(1, 0.001F, 1 << 30, 1);
  light->share.owner = 7;
  light->share.floor = kAlwaysBehind;
  queue_.PushBulk(light);
  queue_.PushBulk(Make(2, 1, 1 << 30, 2));
  for (int i = 0; i < 1600; ++i) Turn(64 << 10);
  EXPECT_NEAR(static_cast<double>(sent_[1]), 1500 * (64 << 10), 64 << 10);
  EXPECT_NEAR(static_cast<double>(sent_[2]), 100 * (64 << 10), 64 << 10);
}

TEST_F(OwnerRatesQueueTest, WhoHasItsFloorTakesTurns) {
  Request* one = Make(1, 1, 1 << 30, 1);
  one->share.owner = 7;
  one->share.floor = 1e-6F;
  queue_.PushBulk(one);
  queue_.PushBulk(Make(2, 1, 1 << 30, 2));
  for (int i = 0; i < 100; ++i) Turn(64 << 10);
  EXPECT_NEAR(static_cast<double>(sent_[1]), static_cast<double>(sent_[2]), 128 << 10);
}

TEST_F(OwnerRatesQueueTest, TheCapOfATenantHoldsForAllItsOwners) {
  Request* one = Make(1, 1000, 64 << 10, 1);
  Request* other_owner = Make(1, 1000, 64 << 10, 2);
  Request* own_message = Make(1, 1, 64 << 10, 3);
  Request* stranger = Make(2, 1, 64 << 10, 4);
  one->share = {.tenant = 1, .weight = 1000, .job = 1, .owner = 7, .tenant_cap = 1e6F};
  other_owner->share = {.tenant = 1, .weight = 1000, .job = 2, .owner = 8, .tenant_cap = 1e6F};
  stranger->share.owner = 1;
  queue_.Push(one);
  rates_->OfTenant(1)->Charge(size_t{1} << 40);  // days
  for (Request* send : {other_owner, own_message, stranger}) queue_.Push(send);
  std::map<const Request*, int> turns;
  for (int i = 0; i < 20; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    ASSERT_NE(turn.send, nullptr);
    queue_.Charge(*turn.send, 64 << 10);
    ++turns[turn.send];
    queue_.Push(turn.send);
  }
  EXPECT_EQ(turns[own_message], 10) << "the daemon's own: no term holds for them";
  EXPECT_EQ(turns[stranger], 10);
  own_message->Unlink();
  stranger->Unlink();
  EXPECT_EQ(queue_.Next().send, nullptr);
  other_owner->Unlink();
  other_owner->share.tenant_cap = 0;
  queue_.Push(other_owner);
  EXPECT_NE(queue_.Next().send, nullptr) << "lifted by a message";
}

TEST_F(OwnerRatesQueueTest, WhoIsHeldBackGoesOnInTime) {
  Request* capped = Make(1, 1, 1 << 30, 1);
  capped->share = {.tenant = 1, .job = 1, .owner = 7, .cap = 100e6F};
  queue_.PushBulk(capped);
  for (int frames = 0; frames < 10;) {
    const SendQueue::Turn turn = queue_.Next();
    if (turn.send != nullptr) {
      ++frames;
      queue_.Charge(*turn.send, 64 << 10);
      queue_.ReturnBulk(turn.send);
      continue;
    }
    // The writer is called: nobody else would ask again.
    pollfd event{poller_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 10'000), 1);
    writer_.called = 0;
    poller_->Poll();
    poller_->RunLater();
    EXPECT_EQ(writer_.called, 1);
  }
}

/// Jobs of one tenant that all have to wait, beside a stranger's that does not.
class CrowdTest : public OwnerRatesQueueTest {
 protected:
  static constexpr uint64_t kJobs = 2000;
  static constexpr int kTurns = 100;

  /// Adds a job of a new owner.
  void AddJob(const TenantShare& terms) {
    Request* send = Make(1, 1000, 64 << 10, 1 + ++jobs_);
    send->share = terms;
    send->share.tenant = 1;
    send->share.job = jobs_;
    if (terms.owner == 0) send->share.owner = jobs_;
    queue_.Push(send);
    const std::shared_ptr<OwnerRate> rate = rates_->Of(1, send->share.owner);
    if (rate != nullptr) rate->Charge(size_t{1} << 40);  // months of a cap
  }
  /// Returns how many looks at owners the turns of a stranger's messages take.
  uint64_t LooksOfStrangersTurns() {
    Request* stranger = Make(2, 1, 64 << 10, 1);
    stranger->share.owner = 1;
    queue_.Push(stranger);
    Strangers(stranger);  // who has reached a limit is put aside
    const uint64_t before = queue_.looks();
    for (int i = 0; i < kTurns; ++i) Strangers(stranger);
    return queue_.looks() - before;
  }

 private:
  void Strangers(Request* stranger) {
    const SendQueue::Turn turn = queue_.Next();
    ASSERT_EQ(turn.send, stranger);
    queue_.Charge(*turn.send, 64 << 10);
    queue_.Push(turn.send);
  }

  uint64_t jobs_ = 0;
};

TEST_F(CrowdTest, JobsOfOneOwnerAreLookedAtOnce) {
  for (uint64_t job = 1; job <= kJobs; ++job) AddJob({.owner = 7, .cap = Pace::kLeastRate});
  EXPECT_LE(LooksOfStrangersTurns(), 2 * kTurns);
}

TEST_F(CrowdTest, OwnersThatHaveReachedTheirCapsAreNotLookedAtEachTurn) {
  for (uint64_t job = 1; job <= kJobs; ++job) AddJob({.cap = Pace::kLeastRate});
  EXPECT_LE(LooksOfStrangersTurns(), kTurns + 2 * kJobs);
}

TEST_F(CrowdTest, OwnersOfATenantThatHasReachedItsCapAreNotLookedAt) {
  AddJob({.tenant_cap = 1});
  rates_->OfTenant(1)->Charge(size_t{1} << 40);
  for (uint64_t job = 2; job <= kJobs; ++job) AddJob({.tenant_cap = 1});
  EXPECT_LE(LooksOfStrangersTurns(), 2 * kTurns);
}

TEST_F(CrowdTest, OwnersWithFloorsAreNotAllLookedAtInATurn) {
  for (uint64_t job = 1; job <= kJobs; ++job) AddJob({.floor = 1e-3F});
  // They have had their floors, and their tenant its cap.
  Request* capped = Make(1, 1000, 64 << 10, 1);
  capped->share = {.tenant = 1, .job = 1, .owner = 1, .floor = 1e-3F, .tenant_cap = 1};
  queue_.Push(capped);
  rates_->OfTenant(1)->Charge(size_t{1} << 40);
  EXPECT_LE(LooksOfStrangersTurns(), kTurns * (1 + SendQueue::kMostFloorLooks));
}

// However many have floors, each of them gets it.
TEST_F(OwnerRatesQueueTest, FloorsHoldWhateverTheNumberOfOwners) {
  constexpr int kOwners = 3 * SendQueue::kMostFloorLooks;
  for (uint64_t owner = 1; owner <= kOwners; ++owner) {
    Request* send = Make(1, 1, 64 << 10, 10 + owner);
    send->share = {.tenant = 1, .job = owner, .owner = owner, .floor = 1e18F};
    queue_.Push(send);
  }
  queue_.PushBulk(Make(2, 1e6F, 1 << 30, 1));
  int of_floors = 0;
  for (int i = 0; i < kOwners + kOwners / SendQueue::kMostFloorTurns; ++i) {
    const SendQueue::Turn turn = queue_.Next();
    queue_.Charge(*turn.send, 64 << 10);
    if (turn.bulk) queue_.ReturnBulk(turn.send);
    of_floors += turn.bulk ? 0 : 1;
  }
  EXPECT_GE(of_floors, kOwners - 1);
}

TEST(TenantMixTest, SharedWhileSeveralSend) {
  TenantMix mix;
  EXPECT_FALSE(mix.shared());
  mix.Charge({.tenant = 1}, 3 * TenantMix::kBytes);
  EXPECT_FALSE(mix.shared());
  mix.Charge({.tenant = 2}, 1000);
  EXPECT_TRUE(mix.shared());
  mix.Charge({.tenant = 2}, TenantMix::kBytes - 2000);
  EXPECT_TRUE(mix.shared());
  mix.Charge({.tenant = 1}, 1000);
  mix.Charge({.tenant = 1}, TenantMix::kBytes);
  EXPECT_FALSE(mix.shared());
}

}  // namespace
}  // namespace harmonaize::transport
