// A communicator of two hosts, one of which is the test; of the other there is the port, and nobody
// who answers.

#include "daemon/multihost/network_runner.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/plans/fabrics.h"
#include "daemon/plans/host_plan.h"
#include "daemon/sharing/start_gate.h"
#include "tests/support/sanitized.h"
#include "tests/unit/daemon/communicator/communicator_fixture.h"

namespace harmonaize::daemon {
namespace {

/// Lets everything begin.
class OpenGate final : public StartGate {
 public:
  bool MayBegin(Communicator&) override { return true; }
  void NoteEnd(Communicator&) override {}
};

class NoRankObserver final : public RemoteRankObserver {
 public:
  void OnRankLeft(Communicator&, int) override {}
};

/// Keeps the messages that it hears.
class RecordingEvents final : public ClusterEvents {
 public:
  void OnMessage(transport::PeerId, const ClusterMessage& message) override {
    heard.push_back(message);
  }
  void OnPeerLost(transport::PeerId) override {}

  template <typename Message>
  int64_t Count() const {
    return std::count_if(heard.begin(), heard.end(), [](const ClusterMessage& message) {
      return message.As<Message>() != nullptr;
    });
  }
  std::vector<ClusterMessage> heard;
};

/// More operations than are dealt with at once.
constexpr int kMany = 1000;

class NetworkRunnerTest : public CommunicatorFixture {
 protected:
  NetworkRunnerTest() {
    Make(2, {0});
    ClusterConfig config;
    config.address = "127.0.0.1:0";
    config.allow_unauthenticated = true;
    // Both daemons are on this thread, so one is silent for as long as the other works.
    config.dead_after_seconds = 60;
    cluster_ = NewCluster(config, &events_);
    other_ = NewCluster(config, &other_events_);
  }
  ~NetworkRunnerTest() override { communicator_.reset(); }

  std::unique_ptr<Cluster> NewCluster(const ClusterConfig& config, ClusterEvents* events) {
    Result<std::unique_ptr<Cluster>> made = Cluster::Create(config, events, loop_.get());
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }

  /// Rank 0 is here, rank 1 at a daemon with this address, which is this peer if it is known.
  void SpanTo(const std::string& address, std::optional<transport::PeerId> peer = std::nullopt,
              transport::PeerId home = kThisDaemon) {
    const Roster roster{.key = kKey,
                        .home = home,
                        .self = 0,
                        .host_of_rank = {0, 1},
                        .addresses = {cluster_->address(), address},
                        .fabric_hosts = {0, 1},
                        .peers = {kThisDaemon, peer},
                        .fabric = fabrics_.OneSwitch(2).digest};
    communicator_->Span(std::make_unique<NetworkRunner>(
        HostServices{Services(), cluster_.get(), &fabrics_, &network_, &gate_, &ranks_},
        communicator_.get(), roster));
  }
  /// Rank 1 is at the other daemon, to which there is a link.
  void SpanToOther() {
    LinkToOther();
    SpanTo(other_->address(), peer_);
  }
  void LinkToOther() {
    cluster_->Reach(other_->address(), [this](const Result<transport::PeerId>& reached) {
      ASSERT_TRUE(reached.ok()) << reached.status().message();
      peer_ = *reached;
    });
    RunUntil([this] { return peer_ != kThisDaemon && !other_->linked().empty(); });
  }
  /// Rank 0 posts operations that begin together.
  void PostTogether(int count, OperationDescriptor descriptor) {
    descriptor.member = members_[0]->index;
    descriptor.stream = descriptor.member;
    descriptor.position = ++posted_[0];
    descriptor.send = {0, regions_[0]};
    descriptor.receive = {kElements * sizeof(float), regions_[0]};
    for (int i = 0; i < count; ++i) {
      descriptor.flags = i + 1 == count ? kLastOfPosition : 0;
      descriptor.sequence = members_[0]->next_sequence;
      const Result<PostedOperation*> part = sessions_[0]->Admit(descriptor);
      ASSERT_TRUE(part.ok()) << part.status().message();
      communicator_->Post(*part);
      if ((*part)->stream->Arrive(*part)) ready_.Add(*tenant_, *part);
    }
    RunReady();
  }
  static OperationDescriptor Pair(Collective kind) {
    OperationDescriptor descriptor;
    descriptor.collective = kind;
    descriptor.root = 1;
    descriptor.count = 1;
    return descriptor;
  }
  static OperationDescriptor EmptyAllReduce() {
    OperationDescriptor descriptor;
    descriptor.collective = Collective::kAllReduce;
    return descriptor;
  }
  /// The communicator hears this from the other daemon.
  void Hear(const ClusterMessage& message) { HearFrom(peer_, message); }
  void HearFrom(transport::PeerId peer, const ClusterMessage& message) {
    communicator_->other_hosts()->OnMessage(peer, message);
  }
  void HearOffers(int count) {
    for (int i = 0; i < count; ++i) {
      Hear(OfferMessage{kKey, 1, 0, static_cast<uint64_t>(i), 1, DataType::kInt8, Status::Ok()});
    }
  }
  /// Expects that some of so many operations have ended, and that all have after a while.
  void ExpectPortionsOf(int64_t count, int64_t left_in_the_end) {
    EXPECT_LT(outstanding(0), count);
    EXPECT_GT(outstanding(0), left_in_the_end);
    loop_->RunPosted();
    EXPECT_GT(outstanding(0), left_in_the_end);
    Run();
    EXPECT_EQ(outstanding(0), left_in_the_end);
  }
  /// Takes all memory that the tenant may still make the daemon keep.
  void TakeAllMemory() {
    for (int64_t bytes = int64_t{1} << 50; bytes > 0; bytes /= 2) {
      for (Result<Holding> taken = tenant_->account->Take(Resource::kMemory, bytes); taken.ok();
           taken = tenant_->account->Take(Resource::kMemory, bytes)) {
        taken_.push_back(std::move(*taken));
      }
    }
  }
  /// Lets both daemons go on until `done` returns true, or for some seconds.
  void RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < 20'000 && !done(); ++i) {
      Run();
      cluster_->Progress(true);
      other_->Progress(true);
      usleep(100);
    }
    Run();
  }
  void RunUntilEnded() {
    RunUntil([this] { return communicator_->state() != Communicator::State::kReady; });
  }

  static constexpr uint64_t kKey = 77;
  /// Daemons to which there is no link.
  static constexpr transport::PeerId kStranger = 1000;
  static constexpr transport::PeerId kThere = 1001;

  RecordingEvents events_;
  RecordingEvents other_events_;
  transport::PeerId peer_ = kThisDaemon;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Cluster> other_;
  Fabrics fabrics_;
  NetworkOperations network_{&sliced_};
  OpenGate gate_;
  NoRankObserver ranks_;
  std::vector<Holding> taken_;
};

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
constexpr uint64_t kMessageBytes = kPartsOfMessage * (uint64_t{128} << 10);

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
  EXPECT_LT(Unpaid() - before, (1024 + kMessages) * 600);
  End();
}

// ---------------------------------------------------------------------------------------------
// Many operations, which are dealt with in portions

TEST_F(NetworkRunnerTest, ManyTransfersEndInPortionsWithTheirCommunicator) {
  SpanToOther();
  HearOffers(kMany);  // more than the receives that follow
  PostTogether(kMany, Pair(Collective::kSend));
  PostTogether(1, Pair(Collective::kReceive));  // waits for its stream
  communicator_->Break(RemoteError("broken"));
  EXPECT_TRUE(communicator_->executing());
  EXPECT_EQ(outstanding(0), kMany + 1);  // the offers come first
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_EQ(ErrorOf(0), "broken");
  EXPECT_FALSE(communicator_->executing());
}

TEST_F(NetworkRunnerTest, TransfersWithARankThatLeavesEndInPortionsAndOnce) {
  SpanToOther();
  PostTogether(kMany, Pair(Collective::kReceive));
  Hear(LeftMessage{kKey, 1, 0});
  EXPECT_TRUE(communicator_->executing());
  // An offer that comes meanwhile is from before, so its receive is carried out.
  Hear(OfferMessage{kKey, 1, 0, kMany - 1, 1, DataType::kInt8, Status::Ok()});
  // One that is not offered ends by itself or in its turn, whatever comes first.
  Hear(OfferMessage{kKey, 1, 0, kMany - 2, 1, DataType::kInt8, RemoteError("withdrawn")});
  ExpectPortionsOf(kMany, 1);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  communicator_->Break(RemoteError("broken"));
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_FALSE(communicator_->executing());
}

// Their senders wait for the answers, whatever else becomes of the communicator.
TEST_F(NetworkRunnerTest, OffersToARankThatLeavesAreAllAnswered) {
  SpanToOther();
  HearOffers(kMany);
  communicator_->Leave(0);
  EXPECT_TRUE(communicator_->executing());
  RunUntil([this] { return other_events_.Count<AnswerMessage>() == kMany; });
  EXPECT_EQ(other_events_.Count<AnswerMessage>(), kMany);
  EXPECT_FALSE(communicator_->executing());
}

TEST_F(NetworkRunnerTest, TransfersThatWaitForTheirPlanAllStart) {
  SpanToOther();
  PostTogether(kMany, Pair(Collective::kSend));
  RunUntil([this] { return other_events_.Count<OfferMessage>() == kMany; });
  EXPECT_EQ(other_events_.Count<OfferMessage>(), kMany);
  for (uint64_t number = 0; number < kMany; ++number) {
    Hear(AnswerMessage{kKey, 0, 1, number, Status::Ok()});
  }
  RunUntil([this] { return outstanding(0) == 0; });
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_EQ(communicator_->operations(), static_cast<uint64_t>(kMany));
}

TEST_F(NetworkRunnerTest, OfManyTransfersThatWaitSomeAreListed) {
  SpanToOther();
  PostTogether(kMany, Pair(Collective::kReceive));
  const WaitingOperations waiting = communicator_->Waiting(0);
  EXPECT_EQ(waiting.listed.size(), WaitingOperations::kMostListed);
  EXPECT_EQ(waiting.listed.size() + waiting.not_listed, static_cast<size_t>(kMany));
  communicator_->Break(RemoteError("broken"));
  Run();
}

TEST_F(NetworkRunnerTest, ManyCollectivesEndInPortionsWithTheirCommunicator) {
  SpanToOther();
  PostTogether(kMany, EmptyAllReduce());
  Run();
  EXPECT_EQ(outstanding(0), kMany);  // the other host has not begun them
  communicator_->Break(RemoteError("broken"));
  ExpectPortionsOf(kMany, 0);
  EXPECT_EQ(ErrorOf(0), "broken");
}

TEST_F(NetworkRunnerTest, ManyCollectivesEndInPortionsWhenARankLeaves) {
  SpanToOther();
  PostTogether(kMany, EmptyAllReduce());
  Run();
  Hear(LeftMessage{kKey, 1, 10});
  ExpectPortionsOf(kMany, 10);
  ExpectIn("rank 1 has left", ErrorOf(0));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  communicator_->Break(RemoteError("broken"));
  Run();
}

TEST_F(NetworkRunnerTest, ManyCollectivesAreDoneInPortionsWhenAllHostsHaveBegunThem) {
  SpanToOther();
  PostTogether(kMany, EmptyAllReduce());
  Run();
  for (size_t i = 0; i < events_.heard.size(); ++i) {
    // What this host tells itself as the home, and what the other one tells.
    communicator_->other_hosts()->OnMessage(kThisDaemon, events_.heard[i]);
  }
  ASSERT_EQ(outstanding(0), kMany);
  BegunMessage begun{.communicator = kKey, .begun = {}, .asks = true};
  for (const ClusterMessage& message : events_.heard) {
    if (const auto* const own = message.As<BegunMessage>()) {
      begun.begun.insert(begun.begun.end(), own->begun.begin(), own->begun.end());
    }
  }
  Hear(begun);
  ExpectPortionsOf(kMany, 0);
  EXPECT_EQ(communicator_->operations(), static_cast<uint64_t>(kMany));
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
