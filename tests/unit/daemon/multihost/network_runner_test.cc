// A communicator of two hosts, one of which is the test; of the other there is the port, and nobody
// who answers.

#include "daemon/multihost/network_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/plans/fabrics.h"
#include "daemon/plans/host_plan.h"
#include "daemon/sharing/start_gate.h"
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

/// Hears of nothing that the tests need.
class NoClusterEvents final : public ClusterEvents {
 public:
  void OnMessage(transport::PeerId, const ClusterMessage&) override {}
  void OnPeerLost(transport::PeerId) override {}
};

class NetworkRunnerTest : public CommunicatorFixture {
 protected:
  NetworkRunnerTest() {
    Make(2, {0});
    ClusterConfig config;
    config.address = "127.0.0.1:0";
    config.allow_unauthenticated = true;
    cluster_ = NewCluster(config);
    other_ = NewCluster(config);
  }
  ~NetworkRunnerTest() override { communicator_.reset(); }

  std::unique_ptr<Cluster> NewCluster(const ClusterConfig& config) {
    Result<std::unique_ptr<Cluster>> made = Cluster::Create(config, &events_, loop_.get());
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }

  /// Rank 0 is here, rank 1 at a daemon with this address.
  void SpanTo(const std::string& address) {
    const Roster roster{.key = 77,
                        .home = kThisDaemon,
                        .self = 0,
                        .host_of_rank = {0, 1},
                        .addresses = {cluster_->address(), address},
                        .fabric_hosts = {0, 1},
                        .peers = {kThisDaemon, std::nullopt},
                        .fabric = fabrics_.OneSwitch(2).digest};
    communicator_->Span(std::make_unique<NetworkRunner>(
        HostServices{Services(), cluster_.get(), &fabrics_, &network_, &gate_, &ranks_},
        communicator_.get(), roster));
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
  /// Lets both daemons go on until the communicator is not ready any more.
  void RunUntilEnded() {
    for (int i = 0; i < 20'000; ++i) {
      Run();
      cluster_->Progress(true);
      other_->Progress(true);
      sliced_.Run();
      if (communicator_->state() != Communicator::State::kReady) break;
      usleep(100);
    }
    Run();
  }

  NoClusterEvents events_;
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
  for (int i = 0; i < 100'000; ++i) group.TellHostOf(1, offer);
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
  EXPECT_GE(plan.TakeGrowth(*first), static_cast<int64_t>(sizeof(NetworkExecution)));
  EXPECT_EQ(plan.TakeGrowth(*first), 0);
  NetworkExecution* const second = plan.Take();
  EXPECT_EQ(plan.TakeGrowth(*second), static_cast<int64_t>(sizeof(NetworkExecution)));
  plan.GiveBack(first);
  EXPECT_EQ(plan.TakeGrowth(*plan.Take()), 0);
}

}  // namespace
}  // namespace harmonaize::daemon
