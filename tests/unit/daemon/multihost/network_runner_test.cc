#include "daemon/multihost/network_runner.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/plans/host_plan.h"
#include "tests/support/sanitized.h"
#include "tests/unit/daemon/multihost/two_hosts_fixture.h"

namespace harmonaize::daemon {
namespace {

/// More operations than are dealt with at once.
constexpr int kManyOperations = 1000;

using NetworkRunnerTest = TwoHostsFixture;

// The break comes from within the beginning of the transfer, and takes the transfer along.
TEST_F(NetworkRunnerTest, ATransferThatCannotBePaidForEndsTheCommunicator) {
  SpanTo(other_->address());
  PostSend(0, 1);
  TakeAllMemory();
  RunUntilEnded();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  EXPECT_EQ(outstanding(0), 0);
  ExpectIn("memory", ErrorOf(0));
  EXPECT_FALSE(communicator_->executing());
}

// Addresses are other daemons' words. The send that finds it out must not be ended while it looks.
TEST_F(NetworkRunnerTest, AnAddressThatIsNoneEndsTheCommunicator) {
  SpanTo("nowhere");
  PostSend(0, 1);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  RunUntilEnded();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  EXPECT_EQ(outstanding(0), 0);
  ExpectIn("rank 1", ErrorOf(0));
}

// The other daemon is there, and reads nothing. What one tenant has to say to it must not end the
// link, which all tenants use.
TEST_F(NetworkRunnerTest, ATenantThatFloodsADaemonEndsItsOwnCommunicator) {
  SpanTo(other_->address());
  HostGroup& group = communicator_->other_hosts()->group();
  Status reached = InternalError("nothing yet");
  group.ReachHost(1, [&](const Status& status) { reached = status; });
  for (int i = 0; i < 20'000 && !reached.ok(); ++i) {
    Run();
    cluster_->Progress(true);
    other_->Progress(true);
    usleep(100);
  }
  ASSERT_TRUE(reached.ok()) << reached.message();
  const Status lengthy = RemoteError("{}", std::string(1000, 'x'));
  const OfferMessage offer{77, 0, 1, 0, 1, DataType::kInt8, lengthy};
  // Far more than may wait.
  for (int i = 0; i < (kSanitized ? 30'000 : 100'000); ++i) group.TellHostOf(1, offer);
  Run();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  ExpectIn("does not keep up", communicator_->failure().message());
  ASSERT_EQ(cluster_->linked().size(), 1u);
  const transport::PeerId peer = cluster_->linked().begin()->first;
  TenantIdentity neighbour = communicator_->tenant().identity;
  EXPECT_FALSE(cluster_->SendFor(neighbour, peer, offer).ok());
  ++neighbour.number;
  EXPECT_TRUE(cluster_->SendFor(neighbour, peer, offer).ok());
  for (int i = 0; i < 1000; ++i) {
    cluster_->Progress(true);
    other_->Progress(true);
  }
  EXPECT_EQ(cluster_->linked().size(), 1u);
}

// A tenant can name a host that nobody reaches, and go on telling it things.
TEST_F(NetworkRunnerTest, MessagesForAHostThatIsBeingReachedArePaidFor) {
  SpanTo(other_->address());
  const int64_t before = tenant_->account->held(Resource::kMemory);
  HostGroup& group = communicator_->other_hosts()->group();
  for (uint64_t number = 0; number < 1000; ++number) {
    group.TellHostOf(1, OfferMessage{77, 0, 1, number, 1, DataType::kInt8, {}});
  }
  EXPECT_GE(tenant_->account->held(Resource::kMemory) - before, 1000 * 256);
  TakeAllMemory();
  for (uint64_t number = 0; number < 100; ++number) {
    group.TellHostOf(1, OfferMessage{77, 0, 1, number, 1, DataType::kInt8, {}});
  }
  Run();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  ExpectIn("memory", communicator_->failure().message());
}

// What executions keep belongs to the tenant's plan until the communicator ends, so it is counted
// once, when it has grown.
TEST_F(NetworkRunnerTest, APlanTellsOnceByHowMuchItHasGrown) {
  Result<HostPart> part = MakePairPart(fabrics_.OneSwitch(2).rated.get(), 0, 1, true, {});
  ASSERT_TRUE(part.ok());
  HostPlan plan(std::move(*part), {kThisDaemon, kThisDaemon}, false, {}, cluster_.get(),
                executor_.get());
  NetworkExecution* const first = plan.Take();
  EXPECT_GE(plan.TakeGrowth(first), static_cast<int64_t>(sizeof(NetworkExecution)));
  EXPECT_EQ(plan.TakeGrowth(first), 0);
  NetworkExecution* const second = plan.Take();
  EXPECT_EQ(plan.TakeGrowth(second), static_cast<int64_t>(sizeof(NetworkExecution)));
  plan.GiveBack(first);
  EXPECT_EQ(plan.TakeGrowth(plan.Take()), 0);
}

// ---------------------------------------------------------------------------------------------
// Pipes

/// Bytes of a message that has so many parts.
constexpr uint64_t kPartsOfMessage = 16;
constexpr uint64_t kMessageBytes = kPartsOfMessage * (uint64_t{64} << 10);

class PipesTest : public NetworkRunnerTest {
 protected:
  PipesTest() {
    SpanToOther();
    Result<SharedMemory> shared = CreateSharedMemory("test", 2 * kMessageBytes);
    EXPECT_TRUE(shared.ok());
    auto memory = std::make_shared<RegionMemory>();
    memory->mapping = std::move(shared->mapping);
    region_ = *sessions_[0]->AddRegion(std::move(memory));
  }

  /// Rank 0 sends a message that nobody receives.
  void Send(uint32_t pipe, uint64_t name, uint64_t bytes) {
    PostMessage(Collective::kSend, pipe, name, bytes);
  }
  /// Rank 0 posts a message in whose place nothing comes, or goes.
  void PostMessage(Collective half, uint32_t pipe, uint64_t name, uint64_t bytes) {
    OperationDescriptor descriptor;
    descriptor.collective = half;
    descriptor.type = DataType::kInt8;
    descriptor.flags = kPipeMessage;
    descriptor.root = 1;
    descriptor.count = bytes;
    descriptor.scalar = pipe;
    descriptor.sequence = name;
    descriptor.member = members_[0]->index;
    const bool sends = half == Collective::kSend;
    descriptor.send = {sends ? kMessageBytes : 0, region_};
    descriptor.receive = {sends ? 0 : kMessageBytes, region_};
    const Result<PostedOperation*> message = sessions_[0]->Admit(descriptor);
    ASSERT_TRUE(message.ok()) << message.status().message();
    communicator_->Post(*message);
  }
  /// Bytes that are allocated, and are not paid for.
  int64_t Unpaid() const {
    return static_cast<int64_t>(mallinfo2().uordblks) - tenant_->account->held(Resource::kMemory);
  }
  void End() {
    communicator_->Break(RemoteError("broken"));
    Hear(PipesClosedMessage{.communicator = kKey, .from = 1, .to = 0, .all = true});
    RunUntil([this] { return outstanding(0) == 0 && !communicator_->executing(); });
    EXPECT_EQ(outstanding(0), 0);
    EXPECT_FALSE(communicator_->executing());
  }

  uint32_t region_ = kNoBuffer;
};

// Its daemon would keep the communicator for as long as the link lasts, and so would this one.
TEST_F(PipesTest, TheOtherDaemonHearsOfTheEndHoweverMuchWaits) {
  const OfferMessage offer{
      kKey, 0, 1, 0, 1, DataType::kInt8, RemoteError("{}", std::string(1000, 'x'))};
  HostGroup& group = communicator_->other_hosts()->group();
  for (int i = 0; i < 30'000; ++i) group.TellHostOf(1, offer);
  Send(0, 0, 1);
  Run();
  ExpectIn("does not keep up", communicator_->failure().message());
  RunUntil([this] { return other_events_.Count<PipesClosedMessage>() > 0; });
  EXPECT_EQ(other_events_.Count<PipesOpenedMessage>(), 1);
  EXPECT_EQ(other_events_.Count<PipesClosedMessage>(), 1);
  End();
}

// The other daemon takes none of the notes that tell of the messages' lengths.
TEST_F(PipesTest, WhatGoesAheadOfMessagesIsPaidFor) {
  constexpr int kPipes = kSanitized ? 300 : 3000;
  Send(0, 0, kMessageBytes / kPartsOfMessage);
  Run();
  const int64_t unpaid = Unpaid();
  for (uint32_t pipe = 1; pipe <= kPipes; ++pipe) {
    Send(pipe, 0, kMessageBytes / kPartsOfMessage);
    Run();
    ASSERT_TRUE(communicator_->ClosePipe({0, 1, pipe}).ok());
  }
  EXPECT_LT(Unpaid() - unpaid, kPipes * 1024);
  End();
}

TEST_F(PipesTest, PipesThatWereFullAndAreClosedKeepNoMemoryOfThat) {
  constexpr int kPipes = 20;
  constexpr uint64_t kMessages = 1000;
  const auto fill_and_close = [this](uint32_t pipe) {
    for (uint64_t name = 0; name < kMessages; ++name) {
      PostMessage(Collective::kReceive, pipe, name, 1);
    }
    Run();
    ASSERT_TRUE(communicator_->ClosePipe({0, 1, pipe}).ok());
    RunUntil([this] { return outstanding(0) == 0; });
  };
  fill_and_close(0);
  const int64_t unpaid = Unpaid();
  for (uint32_t pipe = 1; pipe <= kPipes; ++pipe) fill_and_close(pipe);
  EXPECT_LT(Unpaid() - unpaid, kPipes * 2048);
  End();
}

// A message that waits is one entry of the transport's, and not one for each of its parts.
TEST_F(PipesTest, ManyLargeMessagesThatWaitTakeNoMoreThanManySmallOnes) {
  constexpr uint64_t kMessages = kSanitized ? 300 : 3000;
  const int64_t before = Unpaid();
  for (uint64_t name = 0; name < kMessages; ++name) {
    Send(static_cast<uint32_t>(name / 1000), name, kMessageBytes);
  }
  Run();
  constexpr auto kMostBytes = static_cast<int64_t>((1024 + kMessages) * 600);
  EXPECT_LT(Unpaid() - before, kMostBytes);
  End();
}

// ---------------------------------------------------------------------------------------------
// Many operations, which are dealt with in portions

TEST_F(NetworkRunnerTest, ManyTransfersEndInPortionsWithTheirCommunicator) {
  SpanToOther();
  HearOffers(kManyOperations);  // more than the receives that follow
  PostTogether(kManyOperations, Pair(Collective::kSend));
  PostTogether(1, Pair(Collective::kReceive));  // waits for its stream
  communicator_->Break(RemoteError("broken"));
  EXPECT_TRUE(communicator_->executing());
  EXPECT_EQ(outstanding(0), kManyOperations + 1);  // the offers come first
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_EQ(ErrorOf(0), "broken");
  EXPECT_FALSE(communicator_->executing());
}

TEST_F(NetworkRunnerTest, TransfersWithARankThatLeavesEndInPortionsAndOnce) {
  SpanToOther();
  PostTogether(kManyOperations, Pair(Collective::kReceive));
  Hear(LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->executing());
  // An offer that comes meanwhile is from before, so its receive is carried out.
  Hear(OfferMessage{kKey, 1, 0, kManyOperations - 1, 1, DataType::kInt8, Status::Ok()});
  // One that is not offered ends by itself or in its turn, whatever comes first.
  Hear(OfferMessage{kKey, 1, 0, kManyOperations - 2, 1, DataType::kInt8, RemoteError("withdrawn")});
  ExpectPortionsOf(kManyOperations, 1);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  communicator_->Break(RemoteError("broken"));
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_FALSE(communicator_->executing());
}

// Their senders wait for the answers, whatever else becomes of the communicator.
TEST_F(NetworkRunnerTest, OffersToARankThatLeavesAreAllAnswered) {
  SpanToOther();
  HearOffers(kManyOperations);
  communicator_->Leave(0);
  EXPECT_TRUE(communicator_->executing());
  RunUntil([this] { return other_events_.Count<AnswerMessage>() == kManyOperations; });
  EXPECT_EQ(other_events_.Count<AnswerMessage>(), kManyOperations);
  EXPECT_FALSE(communicator_->executing());
}

TEST_F(NetworkRunnerTest, TransfersThatWaitForTheirPlanAllStart) {
  SpanToOther();
  PostTogether(kManyOperations, Pair(Collective::kSend));
  RunUntil([this] { return other_events_.Count<OfferMessage>() == kManyOperations; });
  EXPECT_EQ(other_events_.Count<OfferMessage>(), kManyOperations);
  for (uint64_t number = 0; number < kManyOperations; ++number) {
    Hear(AnswerMessage{kKey, 0, 1, number, Status::Ok()});
  }
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_EQ(communicator_->operations(), static_cast<uint64_t>(kManyOperations));
}

TEST_F(NetworkRunnerTest, OfManyTransfersThatWaitSomeAreListed) {
  SpanToOther();
  PostTogether(kManyOperations, Pair(Collective::kReceive));
  const WaitingOperations waiting = communicator_->Waiting(0);
  EXPECT_EQ(waiting.listed.size(), WaitingOperations::kMostListed);
  EXPECT_EQ(waiting.listed.size() + waiting.not_listed, static_cast<size_t>(kManyOperations));
  communicator_->Break(RemoteError("broken"));
  Run();
}

TEST_F(NetworkRunnerTest, ManyCollectivesEndInPortionsWithTheirCommunicator) {
  SpanToOther();
  PostTogether(kManyOperations, EmptyAllReduce());
  Run();
  EXPECT_EQ(outstanding(0), kManyOperations);  // the other host has not begun them
  communicator_->Break(RemoteError("broken"));
  ExpectPortionsOf(kManyOperations, 0);
  EXPECT_EQ(ErrorOf(0), "broken");
}

TEST_F(NetworkRunnerTest, ManyCollectivesEndInPortionsWhenARankLeaves) {
  SpanToOther();
  PostTogether(kManyOperations, EmptyAllReduce());
  Run();
  Hear(LeftMessage{kKey, 1, 10});
  ExpectPortionsOf(kManyOperations, 10);
  ExpectIn("rank 1 has left", ErrorOf(0));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  communicator_->Break(RemoteError("broken"));
  Run();
}

TEST_F(NetworkRunnerTest, ManyCollectivesAreDoneInPortionsWhenAllHostsHaveBegunThem) {
  SpanToOther();
  PostTogether(kManyOperations, EmptyAllReduce());
  Run();
  for (size_t i = 0; i < events_.heard.size(); ++i) {
    // What this host tells itself as the home, and what the other one tells.
    communicator_->other_hosts()->OnMessage(kThisDaemon, events_.heard[i]);
  }
  ASSERT_EQ(outstanding(0), kManyOperations);
  BegunMessage begun{.communicator = kKey, .begun = {}, .asks = true};
  for (const ClusterMessage& message : events_.heard) {
    if (const auto* const own = message.As<BegunMessage>()) {
      begun.begun.insert(begun.begun.end(), own->begun.begin(), own->begun.end());
    }
  }
  Hear(begun);
  ExpectPortionsOf(kManyOperations, 0);
  EXPECT_EQ(communicator_->operations(), static_cast<uint64_t>(kManyOperations));
}

// A host may be gone whose word a failed collective waits for.
TEST_F(NetworkRunnerTest, WhenAHostIsGoneTheOthersWordsDecide) {
  SpanToOther();
  ProgressMessage failed{.communicator = kKey, .sequence = 3, .state = HostProgress::kFailed};
  failed.status = RemoteError("the transport failed");
  communicator_->other_hosts()->OnMessage(kThisDaemon, failed);
  Run();
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  Hear(LeftMessage{kKey, 1, 4});
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  Run();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
}

// ---------------------------------------------------------------------------------------------
// Who may say what

TEST_F(NetworkRunnerTest, AHomeBelievesOnlyDaemonsThatHaveRanks) {
  SpanToOther();
  HearFrom(kStranger, LeftMessage{kKey, 1, 0});
  HearFrom(peer_, LeftMessage{kKey, 0, 0});
  HearFrom(peer_, LeftMessage{kKey, 2, 0});
  HearFrom(kStranger, BrokenMessage{kKey, false, RemoteError("a stranger's word")});
  EXPECT_FALSE(communicator_->HasLeft(0));
  EXPECT_FALSE(communicator_->HasLeft(1));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  HearFrom(peer_, LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->HasLeft(1));
  HearFrom(peer_, BrokenMessage{kKey, false, RemoteError("broken there")});
  EXPECT_EQ(ErrorOf(0), "broken there");
}

TEST_F(NetworkRunnerTest, AfterTheEndOnlyItsDaemonSaysThatARankHasLeft) {
  SpanToOther();
  communicator_->Break(RemoteError("broken"));
  HearFrom(kStranger, LeftMessage{kKey, 1, 0});
  EXPECT_FALSE(communicator_->HasLeft(1));
  HearFrom(peer_, LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->HasLeft(1));
}

TEST_F(NetworkRunnerTest, OtherHostsBelieveTheHomeAndTheRanksDaemon) {
  LinkToOther();
  SpanTo(other_->address(), kThere, peer_);
  HearFrom(kStranger, LeftMessage{kKey, 1, 0});
  HearFrom(kStranger, BrokenMessage{kKey, false, RemoteError("a stranger's word")});
  EXPECT_FALSE(communicator_->HasLeft(1));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  HearFrom(kThere, LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->HasLeft(1));
  HearFrom(peer_, BrokenMessage{kKey, false, RemoteError("broken at home")});
  EXPECT_EQ(ErrorOf(0), "broken at home");
}

// If the home is lost, hosts tell each other, and may not have heard of each other before.
TEST_F(NetworkRunnerTest, AnUnknownPeerMayBeTheDaemonOfARankWhoseDaemonIsNotKnown) {
  LinkToOther();
  SpanTo(other_->address(), std::nullopt, peer_);
  HearFrom(kStranger, LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->HasLeft(1));
  HearFrom(kStranger, BrokenMessage{kKey, false, RemoteError("the home is lost")});
  EXPECT_EQ(ErrorOf(0), "the home is lost");
}

}  // namespace
}  // namespace harmonaize::daemon
