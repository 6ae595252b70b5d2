#include "daemon/nccl_tuning/tuning_home.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::daemon {
namespace {

constexpr TunedKey kKey{.user = 1001, .communicator = 0xabc};
constexpr transport::PeerId kFirst = 1;
constexpr transport::PeerId kSecond = 2;

FabricModel TwoRacks() {
  const auto read = LoadFabricFile(FABRICS_FOLDER "/two-racks.toml");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return FabricModel(read->fabric);
}

/// A home whose hosts are the test.
class TuningHomeTest : public ::testing::Test {
 protected:
  void Tell(transport::PeerId peer, int here, int ranks = 4, uint64_t changes = 0) {
    home_.OnRanks(peer, {.user = kKey.user,
                         .nccl_communicator = kKey.communicator,
                         .fabric = 1,
                         .host = static_cast<int>(peer),
                         .ranks = ranks,
                         .here = here,
                         .changes = changes});
  }
  /// Has the home hear twice that a host's links carry a tenth, as a review wants it.
  void SlowDown() {
    EdgeRates rates;
    const int out = model_->EdgeOut(2, 0);
    for (const int edge : {std::min(out, out ^ 1), std::max(out, out ^ 1)}) {
      rates.push_back({edge, 0.1 * model_->BytesPerSecond(edge)});
    }
    for (int i = 0; i < 2; ++i) {
      now_ns_ += 100'000'000;
      home_.OnRates(rates, now_ns_);
      RunPosted();
    }
  }
  /// Waits for the background, and does what it has posted.
  void RunPosted() {
    std::promise<void> done;
    background_.Post([&done] { done.set_value(); }, kKey.user);
    done.get_future().wait();
    std::deque<std::function<void()>> calls;
    {
      const std::lock_guard lock(mutex_);
      calls.swap(posted_);
    }
    for (const auto& call : calls) call();
  }
  /// Returns the messages of a kind that were sent, and forgets all.
  template <typename Message>
  std::vector<Message> Sent() {
    std::vector<Message> sent;
    for (const ClusterMessage& message : std::exchange(sent_, {})) {
      if (const auto* one = message.As<Message>()) sent.push_back(*one);
    }
    return sent;
  }
  void Promise(transport::PeerId peer, uint64_t round, uint64_t from,
               std::vector<uint64_t> checkpoints = {}, const Status& status = {}) {
    home_.OnPromise(peer,
                    {kKey.user, kKey.communicator, round, from, std::move(checkpoints), status});
  }
  /// Begins a round, and returns its number.
  uint64_t BeginRound() {
    Tell(kFirst, 2);
    Tell(kSecond, 2);
    SlowDown();
    const auto proposals = Sent<TuningProposalMessage>();
    EXPECT_EQ(proposals.size(), 2u);
    return proposals.empty() ? 0 : proposals[0].round;
  }
  std::string WhyItStays() { return home_.Report().at(0).stays_as_it_is; }

  std::shared_ptr<const FabricModel> model_ = std::make_shared<const FabricModel>(TwoRacks());
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
  std::vector<ClusterMessage> sent_;
  uint64_t now_ns_ = 1'000'000'000;
  Background background_;
  TuningHome home_{{.models = std::make_shared<RatedModels>(model_),
                    .stated = model_,
                    .costs = {},
                    .least_gain = 1.1,
                    .background = &background_,
                    .post =
                        [this](std::function<void()> call) {
                          const std::lock_guard lock(mutex_);
                          posted_.push_back(std::move(call));
                        },
                    .send = [this](transport::PeerId,
                                   const ClusterMessage& message) { sent_.push_back(message); }}};
};

TEST_F(TuningHomeTest, AllHostsChangeFromTheLargestPromiseOn) {
  const uint64_t round = BeginRound();
  Promise(kFirst, round, 40, {uint64_t{1} << 32 | 9});
  EXPECT_TRUE(Sent<TuningSettleMessage>().empty());
  Promise(kSecond, round, 70, {uint64_t{1} << 32 | 9, uint64_t{2} << 32 | 5});
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_TRUE(settled[0].commit);
  EXPECT_EQ(settled[0].from, 70u);
  EXPECT_EQ(home_.Report()[0].changes, 1u);
  EXPECT_GT(home_.Report()[0].slowdown, 1.1);
}

TEST_F(TuningHomeTest, ACommunicatorThatIsNotKnownWholeStaysAsItIs) {
  Tell(kFirst, 2);
  SlowDown();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(TuningHomeTest, AHostThatRefusesCallsTheChangeOff) {
  const uint64_t round = BeginRound();
  Promise(kFirst, round, 40);
  Promise(kSecond, round, 0, {}, Unavailable("a rank has left"));
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].commit);
  Promise(kSecond, round, 50);  // late, and of no account
  EXPECT_TRUE(sent_.empty());
  // It is tried again, a while later.
  SlowDown();
  EXPECT_TRUE(sent_.empty());
  now_ns_ += 3'000'000'000;
  SlowDown();
  EXPECT_EQ(Sent<TuningProposalMessage>().size(), 2u);
}

TEST_F(TuningHomeTest, AHostThatDoesNotAnswerCallsTheChangeOff) {
  const uint64_t round = BeginRound();
  Promise(kFirst, round, 40);
  home_.Tick(now_ns_);
  EXPECT_TRUE(sent_.empty());
  home_.Tick(now_ns_ + 2 * TuningHome::kLongestRoundNanoseconds);
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].commit);
}

TEST_F(TuningHomeTest, RanksThatDoNotAskAlikeKeepTheirTables) {
  const uint64_t round = BeginRound();
  Promise(kFirst, round, 40, {uint64_t{1} << 32 | 9});
  Promise(kSecond, round, 40, {uint64_t{1} << 32 | 8});
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].commit);
  EXPECT_EQ(WhyItStays(), "its ranks do not ask their tuners alike");
  SlowDown();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(TuningHomeTest, ALostHostCallsTheChangeOff) {
  const uint64_t round = BeginRound();
  Promise(kFirst, round, 40);
  home_.OnPeerLost(kSecond);
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_FALSE(settled.empty());
  EXPECT_FALSE(settled[0].commit);
  EXPECT_EQ(WhyItStays(), "a host was lost");
  home_.OnPeerLost(kFirst);
  EXPECT_TRUE(home_.empty());
}

TEST_F(TuningHomeTest, ARankThatLeavesEndsAllChanges) {
  BeginRound();
  Tell(kFirst, 1);
  const auto settled = Sent<TuningSettleMessage>();
  ASSERT_EQ(settled.size(), 2u);
  EXPECT_FALSE(settled[0].commit);
  EXPECT_EQ(WhyItStays(), "a rank has left");
  Tell(kFirst, 0);
  Tell(kSecond, 0);
  EXPECT_TRUE(home_.empty());
}

TEST_F(TuningHomeTest, ProcessesThatDifferAreNotAdvised) {
  Tell(kFirst, 2, 4);
  Tell(kSecond, 2, 5);
  EXPECT_EQ(WhyItStays(), "its processes differ about the number of its ranks");
  Tell(kFirst, 0);
  Tell(kSecond, 0);
  Tell(kFirst, 3, 4);
  Tell(kSecond, 2, 4);
  EXPECT_EQ(WhyItStays(), "it has more ranks than its processes say");
}

TEST_F(TuningHomeTest, AnotherHomesTablesAreReplacedAtOnce) {
  Tell(kFirst, 2, 4, 3);
  Tell(kSecond, 2, 4, 3);
  home_.OnRates({}, now_ns_);
  RunPosted();
  EXPECT_EQ(Sent<TuningProposalMessage>().size(), 2u);
}

TEST_F(TuningHomeTest, AUserHasNoMoreThanItsShare) {
  for (uint64_t i = 0; i < 2 * TuningHome::kMostOfUser; ++i) {
    home_.OnRanks(
        kFirst, {.user = 7, .nccl_communicator = i, .fabric = 1, .host = 0, .ranks = 2, .here = 1});
  }
  EXPECT_EQ(home_.Report().size(), TuningHome::kMostOfUser);
  Tell(kFirst, 2);
  EXPECT_EQ(home_.Report().size(), TuningHome::kMostOfUser + 1);
  home_.OnRanks(kFirst,
                {.user = 8, .nccl_communicator = 1, .fabric = 1, .host = 4, .ranks = 2, .here = 1});
  EXPECT_EQ(home_.Report().size(), TuningHome::kMostOfUser + 1);
}

}  // namespace
}  // namespace harmonaize::daemon
