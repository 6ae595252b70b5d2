// What is kept for communicators that have not formed here. The other side of the communicator only
// notes what it hears.

#include "daemon/formation/stray_messages.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/outcome.h"
#include "tests/support/sanitized.h"
#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {
namespace {

/// Notes the sequence numbers of the verdicts that it hears.
class NotingHosts final : public OtherHosts {
 public:
  explicit NotingHosts(std::vector<uint64_t>* heard) : heard_(heard) {}

  HostGroup& group() override { std::abort(); }
  uint64_t key() const override { return 7; }
  bool is_home() const override { return false; }
  bool IsRemote(int rank) const override { return rank > 0; }
  bool executing() const override { return false; }
  void PostPair(PostedOperation*) override {}
  void OnPairReady(PostedOperation*) override {}
  void PostMessage(PostedOperation*) override {}
  Status ClosePipe(const PipeId&) override { return Status::Ok(); }
  void OnFirstPart(MatchedOperation*) override {}
  bool MayLaunch(MatchedOperation*) override { return false; }
  void Launch(MatchedOperation*) override {}
  void OnNetworkDone(MatchedOperation*) override {}
  void NoteEnd(const MatchedOperation&, const Status&) override {}
  void OnPlanReady() override {}
  void OnTermsChanged() override {}
  void FailFrom(int, uint64_t, const Status&) override {}
  void TellLeft(int, uint64_t) override {}
  void TellEnd(bool, const Status&) override {}
  void FailAll(const Status&) override {}
  void ReportLate(uint64_t, uint64_t) override {}
  void ListUnderWay(uint64_t, uint64_t, CommunicatorWaits*) const override {}
  void NotifyWaiting(uint64_t, const std::string&) override {}
  void LookAtSomePairs(size_t, uint64_t, const std::function<void(const WaitingPair&)>&) override {}
  size_t ForFirstPairs(size_t, const std::function<void(PostedOperation*)>&) const override {
    return 0;
  }
  void AddWaiting(uint64_t, WaitingOperations*) const override {}
  void OnMessage(transport::PeerId, const ClusterMessage& message) override {
    if (const auto* verdict = message.As<VerdictMessage>()) heard_->push_back(verdict->sequence);
  }
  void OnPeerLost(transport::PeerId) override {}

 private:
  std::vector<uint64_t>* const heard_;
};

class StrayMessagesTest : public CommunicatorFixture, private ClusterEvents {
 protected:
  static constexpr transport::PeerId kPeer = 5;
  static constexpr uint64_t kKey = 7;
  /// More messages than are handed over at once.
  static constexpr uint64_t kMany = 500;

  StrayMessagesTest() {
    Make(2, {0});
    communicator_->Span(std::make_unique<NotingHosts>(&heard_));
    ClusterConfig config;
    config.address = "127.0.0.1:0";
    config.allow_unauthenticated = true;
    Result<std::unique_ptr<Cluster>> made = Cluster::Create(config, this, loop_.get());
    EXPECT_TRUE(made.ok()) << made.status().message();
    cluster_ = std::move(*made);
    stray_ = std::make_unique<StrayMessages>(cluster_.get(), loop_.get());
  }
  ~StrayMessagesTest() override { communicator_.reset(); }

  void Hear(uint64_t key, uint64_t sequence) {
    stray_->OnMessage(kPeer, key, VerdictMessage{key, sequence, RemoteError("it failed")});
  }
  /// A communicator hears this much.
  void Flood(uint64_t key, size_t bytes) {
    const ProgressMessage message{.communicator = key, .missing = std::vector<int>(25'000, 1000)};
    constexpr size_t kBytes = 100'000;  // at least
    for (size_t sent = 0; sent < bytes; sent += kBytes) stray_->OnMessage(kPeer, key, message);
  }
  static std::vector<uint64_t> UpTo(uint64_t count) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }

  std::vector<uint64_t> heard_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<StrayMessages> stray_;

 private:
  void OnMessage(transport::PeerId, const ClusterMessage&) override {}
  void OnPeerLost(transport::PeerId) override {}
};

TEST_F(StrayMessagesTest, ACommunicatorGetsWhatCameBeforeItInPortionsAndInOrder) {
  for (uint64_t i = 0; i < kMany; ++i) Hear(kKey, i);
  Hear(8, 0);
  stray_->DeliverTo(communicator_.get(), kKey);
  EXPECT_LT(heard_.size(), kMany);
  // What comes meanwhile waits behind the others.
  EXPECT_TRUE(stray_->Keeps(kKey));
  Hear(kKey, kMany);
  Run();
  EXPECT_EQ(heard_, UpTo(kMany + 1));
  EXPECT_FALSE(stray_->Keeps(kKey));
  EXPECT_TRUE(stray_->Keeps(8));
}

TEST_F(StrayMessagesTest, AFloodAboutOneCommunicatorEndsThatOneAlone) {
  Hear(kKey, 0);
  Flood(9, 2 * StrayMessages::kMostBytesOfKey);
  for (uint64_t i = 0; i < 100'000; ++i) Hear(10, i);
  Hear(kKey, 1);
  stray_->DeliverTo(communicator_.get(), kKey);
  Run();
  EXPECT_EQ(heard_, UpTo(2));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
}

TEST_F(StrayMessagesTest, ACommunicatorOfWhichMessagesAreLostEnds) {
  Flood(kKey, StrayMessages::kMostBytesOfKey);
  stray_->DeliverTo(communicator_.get(), kKey);
  Run();
  EXPECT_TRUE(heard_.empty());
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  EXPECT_FALSE(stray_->Keeps(kKey));
}

TEST_F(StrayMessagesTest, FloodsAboutManyCommunicatorsEndTheirOwn) {
  if (kSanitized) GTEST_SKIP() << "takes a minute, and does nothing that one flood does not";
  Hear(kKey, 0);
  for (uint64_t key = 100; key < 160; ++key) Flood(key, StrayMessages::kMostBytesOfKey / 8);
  stray_->DeliverTo(communicator_.get(), kKey);
  Run();
  EXPECT_EQ(heard_, UpTo(1));
}

TEST_F(StrayMessagesTest, OfVeryManyCommunicatorsTheOldestIsForgotten) {
  for (uint64_t key = 100; key < 100 + StrayMessages::kMostKeys + 1; ++key) Hear(key, 0);
  EXPECT_FALSE(stray_->Keeps(100));
  EXPECT_TRUE(stray_->Keeps(101));
}

TEST_F(StrayMessagesTest, WhatIsAboutACommunicatorThatHasEndedIsDropped) {
  for (uint64_t i = 0; i < kMany; ++i) Hear(kKey, i);
  stray_->DeliverTo(communicator_.get(), kKey);
  const size_t heard = heard_.size();
  stray_->NoteEnded(kKey, 0);
  EXPECT_TRUE(stray_->Keeps(kKey));
  Run();
  EXPECT_EQ(heard_.size(), heard);
  EXPECT_FALSE(stray_->Keeps(kKey));
  Hear(kKey, 0);
  EXPECT_FALSE(stray_->Keeps(kKey));
  for (uint64_t key = 100; key < 100 + StrayMessages::kMostEnded; ++key) stray_->NoteEnded(key, 0);
  Hear(kKey, 0);  // forgotten
  EXPECT_TRUE(stray_->Keeps(kKey));
}

TEST_F(StrayMessagesTest, WhatALostPeerSaidIsForgotten) {
  Hear(kKey, 0);
  stray_->OnPeerLost(kPeer);
  stray_->DeliverTo(communicator_.get(), kKey);
  Run();
  EXPECT_TRUE(heard_.empty());
  EXPECT_FALSE(stray_->Keeps(kKey));
}

}  // namespace
}  // namespace harmonaize::daemon
