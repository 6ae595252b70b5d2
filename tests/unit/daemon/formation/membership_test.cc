// Who belongs to which communicator. The engine's thread is the test's own, until it is started.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/address_seal.h"
#include "daemon/host/host_limits.h"
#include "daemon/main/engine.h"
#include "src/memory/shared_memory.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::daemon {
namespace {

const TenantIdentity kTenant{1000, 1000, 1000, "uid 1000"};

class MembershipTest : public ::testing::Test {
 protected:
  explicit MembershipTest(const ClusterConfig& cluster = {}) {
    Config config;
    config.cluster = cluster;
    config.workers = 1;
    config.formation_timeout_seconds = 0.001;
    Calibration calibration;
    calibration.costs = TypicalCosts();
    calibration.fingerprint.processors = 2;
    accounts_ = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
    Result<std::unique_ptr<Engine>> made =
        Engine::Create(config, std::move(calibration), accounts_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine_ = std::move(*made);
  }

  /// A session of a process of the tenant's.
  Session& Enter() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    tenants_ends_.emplace_back(pair[0]);
    auto connection = std::make_shared<Connection>(
        ControlSocket(FileDescriptor(pair[1])),
        Connection::Peer{{getpid(), getuid(), getgid()}, kTenant, false}, FileDescriptor(),
        account(), Holding());
    Result<SharedMemory> segment = CreateSharedMemory("test", sizeof(SessionSegment));
    EXPECT_TRUE(segment.ok());
    const uint32_t number = ++sessions_;
    const Status added = engine_->session_keeper().AddSession(std::make_unique<Session>(
        number, connection, "test", JobClaim{}, engine_->tenants().Of(kTenant),
        std::move(segment->mapping), FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        Session::Holdings{}));
    EXPECT_TRUE(added.ok()) << added.message();
    return *engine_->session_keeper().FindSession(number);
  }
  std::shared_ptr<Account> account() { return accounts_->Of(kTenant.number, kTenant.name); }
  int64_t ids() { return account()->held(Resource::kUniqueIds); }
  UniqueId IdFor(Session& session) {
    const Result<UniqueId> id = engine_->membership().CreateId(session);
    EXPECT_TRUE(id.ok());
    return id.ok() ? *id : UniqueId();
  }
  bool Join(Session& session, const UniqueId& id, int ranks, int rank) {
    return engine_->membership().Join(session, id, ranks, rank, false, "").ok();
  }

  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<Engine> engine_;
  std::vector<FileDescriptor> tenants_ends_;
  uint32_t sessions_ = 0;
};

TEST_F(MembershipTest, AnIdGoesWithTheProcessThatAskedForIt) {
  Session& asker = Enter();
  IdFor(asker);
  EXPECT_EQ(ids(), 1);
  engine_->session_keeper().LoseSession(asker.id(), "ended", SessionEnd::kHungUp);
  EXPECT_EQ(ids(), 0);
}

TEST_F(MembershipTest, AnIdServesOnce) {
  Session& asker = Enter();
  const UniqueId id = IdFor(asker);
  EXPECT_TRUE(Join(asker, id, 1, 0));
  EXPECT_EQ(ids(), 0);
  EXPECT_FALSE(Join(asker, id, 1, 0));
}

TEST_F(MembershipTest, AnIdThatRanksWaitWithOutlivesItsAskerAndGoesWithThem) {
  Session& asker = Enter();
  Session& waiting = Enter();
  Session& other = Enter();
  const UniqueId id = IdFor(asker);
  EXPECT_TRUE(Join(waiting, id, 3, 1));
  engine_->session_keeper().LoseSession(asker.id(), "ended", SessionEnd::kHungUp);
  EXPECT_TRUE(Join(other, id, 3, 2));
  EXPECT_EQ(ids(), 1);
  engine_->session_keeper().LoseSession(waiting.id(), "ended", SessionEnd::kHungUp);
  EXPECT_EQ(ids(), 0);
}

// It is remembered for ranks that come later, and costs the tenant an id meanwhile.
TEST_F(MembershipTest, ADisagreementIsForgottenThoughNobodyWaits) {
  const UniqueId name = MakeNamedId("meeting");
  Join(Enter(), name, 2, 0);
  Join(Enter(), name, 3, 1);
  EXPECT_EQ(ids(), 1);
  engine_->Start();
  for (int tries = 0; tries < 10'000 && ids() > 0; ++tries) usleep(1000);
  EXPECT_EQ(ids(), 0);
}

// ---------------------------------------------------------------------------------------------
// Doors, at which daemons of other hosts knock

class DoorsTest : public MembershipTest {
 protected:
  DoorsTest() : MembershipTest(AloneInACluster()) {}

  static ClusterConfig AloneInACluster() {
    ClusterConfig cluster;
    cluster.address = "127.0.0.1:0";
    cluster.allow_unauthenticated = true;
    return cluster;
  }
  UniqueId OpenDoor(Session& session) {
    const Result<OpenDoorReply> opened = engine_->membership().OpenDoor(session);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? opened->door : UniqueId();
  }
  /// The daemon of another host knocks with this id, for a process of the tenant's.
  void HearKnock(const UniqueId& door, const UniqueId& id) {
    KnockMessage knock{.user = kTenant.across_hosts};
    knock.door.assign(door.token.begin(), door.token.end());
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&id);
    knock.id.assign(bytes, bytes + sizeof id);
    constexpr transport::PeerId kElsewhere = 1000;
    engine_->membership().OnMessage(kElsewhere, knock);
  }
  /// An id that the daemon of another host has given out.
  static UniqueId IdFromElsewhere() {
    UniqueId id = *MakeSecretId();
    const AddressSeal seal{transport::ClusterKey()};
    EXPECT_TRUE(seal.Seal(*transport::NetworkAddress::Parse("127.0.0.9:1"), &id).ok());
    return id;
  }
  uint32_t TakeKnock(Session& session) {
    const Result<uint32_t> member = engine_->membership().TakeKnock(session);
    EXPECT_TRUE(member.ok()) << member.status().message();
    return member.ok() ? *member : kNoMember;
  }
};

// Else such a daemon would have this one's tenants join, or end, what they form among themselves.
TEST_F(DoorsTest, ADaemonKnocksWithIdsOfOtherDaemonsAlone) {
  Session& host = Enter();
  Session& waiting = Enter();
  const UniqueId door = OpenDoor(host);
  const UniqueId id = IdFor(waiting);
  const Result<uint32_t> rank = engine_->membership().Join(waiting, id, 2, 0, false, "");
  ASSERT_TRUE(rank.ok());
  HearKnock(door, id);
  HearKnock(door, MakeNamedId("named"));
  HearKnock(door, UniqueId());
  EXPECT_EQ(TakeKnock(host), kNoMember);
  engine_->session_keeper().LoseSession(host.id(), "ended", SessionEnd::kHungUp);
  EXPECT_EQ(waiting.FindMember(*rank)->slot->state.load(),
            static_cast<uint32_t>(MemberState::kForming));
}

TEST_F(DoorsTest, KnocksFromElsewhereAreTakenOneByOneAndPaidFor) {
  Session& host = Enter();
  const UniqueId door = OpenDoor(host);
  const int64_t before = account()->held(Resource::kMemory);
  for (int i = 0; i < 2000; ++i) HearKnock(door, IdFromElsewhere());
  const int64_t paid = account()->held(Resource::kMemory) - before;
  EXPECT_EQ(paid, Doors::kMostWaiting * 256);  // the others were refused
  EXPECT_NE(TakeKnock(host), kNoMember);
  engine_->session_keeper().LoseSession(host.id(), "ended", SessionEnd::kHungUp);
  // The others are told in portions.
  EXPECT_GT(account()->held(Resource::kMemory), before + paid / 2);
  engine_->Start();
  for (int tries = 0; tries < 10'000 && account()->held(Resource::kMemory) > before; ++tries) {
    usleep(1000);
  }
  EXPECT_LE(account()->held(Resource::kMemory), before);
}

/// Keeps what it hears, as text.
class Recorder final : public CommunicatorObserver {
 public:
  void OnFormed(const Communicator& communicator, int hosts) override {
    heard.push_back(fmt::format("formed: {} ranks on {}", communicator.ranks(), hosts));
  }
  void OnBroken(const Communicator&, const Status& why) override {
    heard.push_back("broken: " + why.message());
  }
  void OnEnded(const Communicator& communicator) override {
    heard.push_back(fmt::format("ended: {} operations", communicator.operations()));
  }

  std::vector<std::string> heard;
};

TEST_F(MembershipTest, ObserversHearWhatBecomesOfACommunicator) {
  Recorder first;
  Recorder second;
  engine_->observers().Add(&first);
  engine_->observers().Add(&second);
  Session& stays = Enter();
  Session& goes = Enter();
  const UniqueId name = MakeNamedId("heard of");
  EXPECT_TRUE(Join(stays, name, 2, 0));
  EXPECT_TRUE(first.heard.empty());
  EXPECT_TRUE(Join(goes, name, 2, 1));
  engine_->session_keeper().LoseSession(goes.id(), "died", SessionEnd::kHungUp);
  engine_->membership().Sweep();
  EXPECT_EQ(first.heard, (std::vector<std::string>{"formed: 2 ranks on 1", "broken: rank 1 died"}));
  engine_->session_keeper().LoseSession(stays.id(), "died", SessionEnd::kHungUp);
  engine_->membership().Sweep();
  ASSERT_EQ(first.heard.size(), 3u);
  EXPECT_EQ(first.heard.back(), "ended: 0 operations");
  EXPECT_EQ(second.heard, first.heard);
}

}  // namespace
}  // namespace harmonaize::daemon
