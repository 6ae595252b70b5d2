// Doors of processes, and who may knock at them.

#include "daemon/formation/doors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/address_seal.h"
#include "src/transport/cluster_key.h"
#include "tests/unit/daemon/formation/engine_fixture.h"

namespace harmonaize::daemon {
namespace {

/// Some other daemon, to which there is no link.
constexpr transport::PeerId kStranger = 1000;

class DoorsTest : public EngineFixture {
 protected:
  DoorsTest() : EngineFixture(AloneInACluster()) {}

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
  /// The daemon of another host knocks at a door, for a process of this user's.
  void HearKnock(std::vector<uint8_t> door, uint32_t user, std::vector<uint8_t> id) {
    membership().OnMessage(kStranger, KnockMessage{std::move(door), user, std::move(id)});
  }
  /// An id that the daemon of another host has given out.
  static std::vector<uint8_t> IdFromElsewhere() {
    UniqueId id = *MakeSecretId();
    const AddressSeal seal{transport::ClusterKey()};
    EXPECT_TRUE(seal.Seal(*transport::NetworkAddress::Parse("127.0.0.9:1"), &id).ok());
    return BytesOf(id);
  }
  static std::vector<uint8_t> BytesOf(const UniqueId& id) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof id};
  }
  static std::vector<uint8_t> TokenOf(const UniqueId& door) {
    return {door.token.begin(), door.token.end()};
  }
};

TEST_F(DoorsTest, AProcessHasOneDoorWhichGoesWithIt) {
  const Process process = Enter();
  const UniqueId door = Open(process);
  EXPECT_EQ(Open(process), door);
  EXPECT_NE(Open(Enter()), door);
  EXPECT_EQ(held(Resource::kUniqueIds), 2);
  End(process);
  EXPECT_EQ(held(Resource::kUniqueIds), 1);
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
  EXPECT_FALSE(membership().Knock(*connects.session, IdFor(listens), "").ok());
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

// Else such a daemon would have this one's tenants join, or end, what they form among themselves.
TEST_F(DoorsTest, ADaemonKnocksWithIdsOfOtherDaemonsAlone) {
  const Process host = Enter();
  const Process waiting = Enter();
  const UniqueId door = Open(host);
  const UniqueId id = IdFor(waiting);
  const Result<uint32_t> rank = membership().Join(*waiting.session, id, 2, 0, false, "");
  ASSERT_TRUE(rank.ok());
  for (const UniqueId& one : {id, MakeNamedId("named"), UniqueId()}) {
    HearKnock(TokenOf(door), kAlice.across_hosts, BytesOf(one));
  }
  EXPECT_EQ(Take(host), kNoMember);
  End(host);
  EXPECT_EQ(waiting.state(*rank), MemberState::kForming);
}

TEST_F(DoorsTest, KnocksFromElsewhereAreTakenOneByOneAndPaidFor) {
  const Process host = Enter();
  const UniqueId door = Open(host);
  const int64_t before = held(Resource::kMemory);
  for (int i = 0; i < 2000; ++i) {
    HearKnock(TokenOf(door), kAlice.across_hosts, IdFromElsewhere());
  }
  const int64_t paid = held(Resource::kMemory) - before;
  EXPECT_EQ(paid, Doors::kMostWaiting * 256);  // the others were refused
  EXPECT_NE(Take(host), kNoMember);
  End(host);
  // The others are told in portions.
  EXPECT_GT(held(Resource::kMemory), before + paid / 2);
  engine_->Start();
  for (int tries = 0; tries < 10'000 && held(Resource::kMemory) > before; ++tries) usleep(1000);
  EXPECT_LE(held(Resource::kMemory), before);
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
