// Doors and knocks of processes that give up, guess, or have not enough: each gets an answer, and
// nothing of it stays.

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_session.h"

namespace harmonaize::testing {
namespace {

UniqueId OpenDoor(HostileSession& session) {
  EXPECT_TRUE(session.Ask(OpenDoorRequest{}).ok());
  return session.LastReply<OpenDoorReply>().door;
}

Result<uint32_t> Knock(HostileSession& session, const UniqueId& door) {
  HZ_RETURN_IF_ERROR(session.Ask(KnockRequest{.door = door}));
  return session.LastReply<MemberReply>().member;
}

Result<uint32_t> TakeKnock(HostileSession& session) {
  HZ_RETURN_IF_ERROR(session.Ask(TakeKnockRequest{}));
  return session.LastReply<MemberReply>().member;
}

std::string WhyFailed(HostileSession& session, uint32_t member) {
  MemberSlot& slot = session.segment().members[member];
  const bool failed = Eventually(
      30, [&] { return slot.state.load() == static_cast<uint32_t>(MemberState::kFailed); });
  return failed ? slot.error.Get() : "it has not failed";
}

/// How much of a resource this test's user holds.
int64_t Held(const DaemonProcess& daemon, const std::string& resource) {
  const Result<std::string> text = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(text.ok()) << text.status().message();
  const nlohmann::json status = ReadJson(text.ok() ? *text : R"({"tenants": []})");
  for (const auto& tenant : status["tenants"]) {
    for (const auto& one : tenant["holds"]) {
      if (one["resource"] == resource) return one["held"];
    }
  }
  return 0;
}

TEST(HostileDoorsTest, KnocksThatAreGivenUpLeaveNothing) {
  const DaemonProcess daemon;
  HostileSession host(daemon.socket_path());
  HostileSession guest(daemon.socket_path());
  const UniqueId door = OpenDoor(host);
  for (int i = 0; i < 20; ++i) {
    const Result<uint32_t> member = Knock(guest, door);
    ASSERT_TRUE(member.ok()) << member.status().message();
    EXPECT_TRUE(guest.Ask(AbortRequest{.member = *member}).ok());
  }
  EXPECT_EQ(Held(daemon, "unique ids"), 1);  // the door

  // The process at the door is none the worse for it.
  const Result<uint32_t> honest = Knock(guest, door);
  ASSERT_TRUE(honest.ok());
  const Result<uint32_t> taken = TakeKnock(host);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_TRUE(guest.WaitUntilReady(*honest));
  EXPECT_TRUE(host.WaitUntilReady(*taken));
  const Result<uint32_t> more = TakeKnock(host);
  EXPECT_TRUE(more.ok() && *more == kNoMember);
}

TEST(HostileDoorsTest, DoorsThatAreGuessedOrGoneLeadNowhere) {
  const DaemonProcess daemon;
  HostileSession guest(daemon.socket_path());
  UniqueId guessed{.kind = UniqueId::Kind::kDoor};
  guessed.token.fill(7);
  const Result<uint32_t> member = Knock(guest, guessed);
  ASSERT_TRUE(member.ok());
  EXPECT_NE(WhyFailed(guest, *member).find("the process that listens is gone"), std::string::npos);

  EXPECT_EQ(Knock(guest, MakeNamedId("one")).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(guest.Ask(CreateIdRequest{}).ok());
  const UniqueId id = guest.LastReply<CreateIdReply>().id;
  EXPECT_EQ(Knock(guest, id).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(*TakeKnock(guest), kNoMember);  // it has no door

  uint32_t waiting = kNoMember;
  {
    HostileSession host(daemon.socket_path());
    waiting = *Knock(guest, OpenDoor(host));
  }
  EXPECT_NE(WhyFailed(guest, waiting).find("the process that listens is gone"), std::string::npos);
}

TEST(HostileDoorsTest, AKnockThatCannotBeTakenIsRefused) {
  const DaemonProcess daemon("[quota]\nranks = 2\n");
  HostileSession host(daemon.socket_path());
  HostileSession guest(daemon.socket_path());
  const UniqueId door = OpenDoor(host);
  host.JoinAlone("alone");
  const Result<uint32_t> member = Knock(guest, door);
  ASSERT_TRUE(member.ok());
  EXPECT_EQ(TakeKnock(host).status().code(), Code::kInvalidUsage);
  EXPECT_NE(WhyFailed(guest, *member).find("could not take the connection"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::testing
