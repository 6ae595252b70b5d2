// Doors of processes, and who may knock at them. The engine's thread is the test's own.

#include "daemon/formation/doors.h"

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

namespace harmonaize::daemon {
namespace {

const TenantIdentity kAlice{1000, 1000, 1000, "uid 1000"};
const TenantIdentity kBob{1001, 1001, 1001, "uid 1001"};
/// Some other daemon, to which there is no link.
constexpr transport::PeerId kStranger = 1000;

class DoorsTest : public ::testing::Test {
 protected:
  /// A process, and what it sees of its session.
  struct Process {
    Session* session = nullptr;
    const SessionSegment* segment = nullptr;

    uint32_t knocks() const { return segment->header.knocks.load(); }
    MemberState state(uint32_t member) const {
      return static_cast<MemberState>(segment->members[member].state.load());
    }
    std::string error(uint32_t member) const { return segment->members[member].error.Get(); }
  };

  DoorsTest() {
    Config config;
    config.workers = 1;
    config.cluster.address = "127.0.0.1:0";
    config.cluster.allow_unauthenticated = true;
    Calibration calibration;
    calibration.costs = TypicalCosts();
    calibration.fingerprint.processors = 2;
    accounts_ = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
    Result<std::unique_ptr<Engine>> made =
        Engine::Create(config, std::move(calibration), accounts_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine_ = std::move(*made);
  }

  Process Enter(const TenantIdentity& user = kAlice) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    tenants_ends_.emplace_back(pair[0]);
    auto connection = std::make_shared<Connection>(
        ControlSocket(FileDescriptor(pair[1])),
        Connection::Peer{{getpid(), getuid(), getgid()}, user, false}, FileDescriptor(),
        accounts_->Of(user.number, user.name), Holding());
    Result<SharedMemory> segment = CreateSharedMemory("test", sizeof(SessionSegment));
    EXPECT_TRUE(segment.ok());
    const auto* const seen = reinterpret_cast<const SessionSegment*>(segment->mapping.data());
    const uint32_t number = ++sessions_;
    const Status added = engine_->session_keeper().AddSession(std::make_unique<Session>(
        number, connection, "test", JobClaim{}, engine_->tenants().Of(user),
        std::move(segment->mapping), FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        Session::Holdings{}));
    EXPECT_TRUE(added.ok()) << added.message();
    return {engine_->session_keeper().FindSession(number), seen};
  }
  void End(const Process& process) {
    engine_->session_keeper().LoseSession(process.session->id(), "ended", SessionEnd::kHungUp);
  }
  Membership& membership() { return engine_->membership(); }
  UniqueId Open(const Process& process) {
    const Result<OpenDoorReply> opened = membership().OpenDoor(*process.session);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? opened->door : UniqueId();
  }
  uint32_t Knock(const Process& process, const UniqueId& door) {
    const Result<uint32_t> member = membership().Knock(*process.session, door, "test");
    EXPECT_TRUE(member.ok()) << member.status().message();
    return member.ok() ? *member : kNoMember;
  }
  uint32_t Take(const Process& process) {
    const Result<uint32_t> member = membership().TakeKnock(*process.session);
    EXPECT_TRUE(member.ok()) << member.status().message();
    return member.ok() ? *member : kNoMember;
  }
  int64_t ids(const TenantIdentity& user) {
    return accounts_->Of(user.number, user.name)->held(Resource::kUniqueIds);
  }
  /// A knock of another daemon at this door.
  void HearKnock(std::vector<uint8_t> door, uint32_t user, std::vector<uint8_t> id) {
    membership().OnMessage(kStranger, KnockMessage{std::move(door), user, std::move(id)});
  }
  /// An id that the daemon of another host has given out.
  static std::vector<uint8_t> IdFromElsewhere() {
    UniqueId id = *MakeSecretId();
    const AddressSeal seal{transport::ClusterKey()};
    EXPECT_TRUE(seal.Seal(*transport::NetworkAddress::Parse("127.0.0.9:1"), &id).ok());
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof id};
  }
  static std::vector<uint8_t> TokenOf(const UniqueId& door) {
    return {door.token.begin(), door.token.end()};
  }

  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<Engine> engine_;
  std::vector<FileDescriptor> tenants_ends_;
  uint32_t sessions_ = 0;
};

TEST_F(DoorsTest, AProcessHasOneDoorWhichGoesWithIt) {
  const Process process = Enter();
  const UniqueId door = Open(process);
  EXPECT_EQ(Open(process), door);
  EXPECT_NE(Open(Enter()), door);
  EXPECT_EQ(ids(kAlice), 2);
  End(process);
  EXPECT_EQ(ids(kAlice), 1);
}

TEST_F(DoorsTest, WhoTakesAKnockIsTheSecondRank) {
  const Process listens = Enter();
  const Process connects = Enter();
  const UniqueId door = Open(listens);
  EXPECT_EQ(Take(listens), kNoMember);
  EXPECT_EQ(Take(connects), kNoMember) << "it has no door";
  const uint32_t first = Knock(connects, door);
  const uint32_t second = Knock(connects, door);
  EXPECT_EQ(listens.knocks(), 2u);
  EXPECT_EQ(connects.state(first), MemberState::kForming);
  const uint32_t taken = Take(listens);
  EXPECT_EQ(connects.state(first), MemberState::kReady);
  EXPECT_EQ(listens.state(taken), MemberState::kReady);
  EXPECT_EQ(connects.segment->members[first].rank.load(), 0);
  EXPECT_EQ(listens.segment->members[taken].rank.load(), 1);
  EXPECT_EQ(connects.state(second), MemberState::kForming);
  EXPECT_NE(Take(listens), kNoMember);
  EXPECT_EQ(connects.state(second), MemberState::kReady);
  EXPECT_EQ(Take(listens), kNoMember);
}

TEST_F(DoorsTest, WhoeverListensAndEndsEndsWhatWaits) {
  const Process listens = Enter();
  const Process connects = Enter();
  const UniqueId door = Open(listens);
  const uint32_t waits = Knock(connects, door);
  End(listens);
  EXPECT_EQ(connects.state(waits), MemberState::kFailed);
  EXPECT_NE(connects.error(waits).find("is gone"), std::string::npos) << connects.error(waits);
  const uint32_t late = Knock(connects, door);
  EXPECT_EQ(connects.state(late), MemberState::kFailed);
}

TEST_F(DoorsTest, AKnockThatWasGivenUpIsTakenByNobody) {
  const Process listens = Enter();
  const Process connects = Enter();
  Knock(connects, Open(listens));
  End(connects);
  EXPECT_EQ(Take(listens), kNoMember);
}

TEST_F(DoorsTest, AnotherUserIsNotLetIn) {
  const Process alice = Enter();
  const Process bob = Enter(kBob);
  const uint32_t member = Knock(bob, Open(alice));
  EXPECT_EQ(bob.state(member), MemberState::kFailed);
  EXPECT_NE(bob.error(member).find("another user"), std::string::npos) << bob.error(member);
  EXPECT_EQ(alice.knocks(), 0u);
  EXPECT_EQ(Take(alice), kNoMember);
}

TEST_F(DoorsTest, WhatIsNoDoorIsRefused) {
  const Process listens = Enter();
  const Process connects = Enter();
  UniqueId door = Open(listens);
  const Result<UniqueId> id = membership().CreateId(*listens.session);
  ASSERT_TRUE(id.ok());
  EXPECT_FALSE(membership().Knock(*connects.session, *id, "").ok());
  door.token[0] ^= 1;
  EXPECT_FALSE(membership().Knock(*connects.session, door, "").ok()) << "its seal does not fit";
  EXPECT_FALSE(membership().Knock(*connects.session, UniqueId(), "").ok());
  EXPECT_EQ(listens.knocks(), 0u);
}

TEST_F(DoorsTest, KnocksOfOtherHostsAreCheckedAsThoseOfThisOne) {
  const Process listens = Enter();
  const UniqueId door = Open(listens);
  const std::vector<uint8_t> id = IdFromElsewhere();
  HearKnock(TokenOf(door), kBob.across_hosts, id);
  std::vector<uint8_t> changed = TokenOf(door);
  changed.back() ^= 1;
  HearKnock(changed, kAlice.across_hosts, id);
  EXPECT_EQ(listens.knocks(), 0u);
  HearKnock(TokenOf(door), kAlice.across_hosts, id);
  EXPECT_EQ(listens.knocks(), 1u);
  EXPECT_NE(Take(listens), kNoMember);
  EXPECT_EQ(Take(listens), kNoMember);
}

TEST_F(DoorsTest, SoManyKnocksWaitAtMost) {
  const Process listens = Enter();
  const UniqueId door = Open(listens);
  const std::vector<uint8_t> id = IdFromElsewhere();
  for (size_t i = 0; i < Doors::kMostWaiting + 5; ++i) {
    HearKnock(TokenOf(door), kAlice.across_hosts, id);
  }
  EXPECT_EQ(listens.knocks(), Doors::kMostWaiting);
  const Process connects = Enter();
  const uint32_t one_more = Knock(connects, door);
  EXPECT_EQ(connects.state(one_more), MemberState::kFailed);
  EXPECT_NE(Take(listens), kNoMember);
  EXPECT_EQ(connects.state(Knock(connects, door)), MemberState::kForming) << "there is room again";
}

TEST_F(DoorsTest, OnlyTheDaemonThatWasAskedRefuses) {
  const Process listens = Enter();
  const Process connects = Enter();
  const uint32_t member = Knock(connects, Open(listens));
  membership().OnMessage(kStranger, KnockRefusedMessage{std::vector<uint8_t>(sizeof(UniqueId), 1),
                                                        RemoteError("a stranger's word")});
  EXPECT_EQ(connects.state(member), MemberState::kForming);
}

}  // namespace
}  // namespace harmonaize::daemon
