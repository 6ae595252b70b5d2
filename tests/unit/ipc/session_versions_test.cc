#include "src/ipc/session_versions.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/ipc/inline_segment.h"

namespace harmonaize {
namespace {

constexpr VersionRange kOurs = {19, 21};

MessageHeader HeaderOf(const std::vector<std::byte>& bytes) {
  const Result<MessageHeader> header = DecodeHeader(bytes);
  EXPECT_TRUE(header.ok()) << header.status().message();
  return header.ok() ? *header : MessageHeader{};
}

MessageHeader FirstOf(const VersionRange& spoken) {
  return HeaderOf(EncodeFirst(HelloRequest{}, spoken));
}

TEST(SessionVersions, AFirstRequestIsInTheOldestVersionAndSaysTheLatest) {
  const MessageHeader header = FirstOf({19, 21});
  EXPECT_EQ(header.version, 19);
  EXPECT_EQ(VersionsOf(header), (VersionRange{19, 21}));
}

TEST(SessionVersions, ARequestIsInNoVersionThatDoesNotHaveIt) {
  const MessageHeader header = HeaderOf(EncodeFirst(JoinJobRequest{}, kOurs));
  EXPECT_EQ(header.version, 20);
  EXPECT_EQ(VersionsOf(header), (VersionRange{20, 21}));
}

TEST(SessionVersions, AReleaseThatSaysNoLatestSpeaksOneVersion) {
  EXPECT_EQ(VersionsOf({.version = 20, .code = 0}), (VersionRange{20, 20}));
  for (const int32_t code : {-1, INT32_MIN, INT32_MAX, 65536, 19, 1}) {
    EXPECT_EQ(VersionsOf({.version = 20, .code = code}), (VersionRange{20, 20})) << code;
  }
}

TEST(SessionVersions, WhatNoVersionIsToldOfAllHave) {
  for (const MessageType type : {MessageType::kHello, MessageType::kStatus, MessageType::kProbe}) {
    EXPECT_TRUE(CheckServed(type, 1).ok());
  }
  EXPECT_EQ(FirstOf({3, 5}).version, 3);
}

TEST(SessionVersions, TheAnswerIsInTheLatestOfBoth) {
  EXPECT_EQ(*AnswerVersion(FirstOf({18, 20}), kOurs, "1"), 20);
  EXPECT_EQ(*AnswerVersion(FirstOf({20, 30}), kOurs, "1"), 21);
  EXPECT_EQ(*AnswerVersion(FirstOf({19, 19}), kOurs, "1"), 19);
}

TEST(SessionVersions, ARefusalNamesBothAndTheWayOut) {
  const Status older = AnswerVersion(FirstOf({17, 18}), kOurs, "1.2").status();
  EXPECT_EQ(older.code(), Code::kInvalidUsage);
  EXPECT_EQ(older.message(),
            "the daemon is harmonaized 1.2 and speaks versions 19 to 21 of the session protocol, "
            "this program's library versions 17 to 18: take the library of the daemon's release");
  const Status newer = AnswerVersion(FirstOf({22, 22}), kOurs, "1.2").status();
  EXPECT_EQ(newer.code(), Code::kInvalidUsage);
  EXPECT_EQ(newer.message(),
            "the daemon is harmonaized 1.2 and speaks versions 19 to 21 of the session protocol, "
            "this program's library version 22: ask the provider to update the daemon, or take the "
            "library of its release");
}

TEST(SessionVersions, AFailureIsReadInEveryVersionAndAnAnswerInOurs) {
  for (const uint16_t version : {uint16_t{1}, uint16_t{20}, uint16_t{60000}}) {
    const auto bytes = EncodeFailure(MessageType::kHello, InvalidUsage("not you"), version);
    const Status status = CheckAnswer(HeaderOf(bytes), bytes, kOurs);
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_EQ(status.message(), "not you");
  }
  const auto ours = Encode(MessageType::kHello, HelloReply{}, {}, 20);
  EXPECT_TRUE(CheckAnswer(HeaderOf(ours), ours, kOurs).ok());
  const auto other = Encode(MessageType::kHello, HelloReply{}, {}, 22);
  EXPECT_EQ(CheckAnswer(HeaderOf(other), other, kOurs).code(), Code::kInternalError);
}

TEST(SessionVersions, WhatAVersionDoesNotHaveIsRefused) {
  EXPECT_TRUE(CheckServed(MessageType::kJoin, 19).ok());
  EXPECT_TRUE(CheckServed(MessageType::kMakeTicket, 20).ok());
  EXPECT_TRUE(CheckServed(MessageType::kLostRanks, 21).ok());
  EXPECT_FALSE(CheckServed(MessageType::kLostRanks, 20).ok());
  const Status status = CheckServed(MessageType::kMakeTicket, 19);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.message().find("a ticket needs version 20"), std::string::npos);
}

TEST(SessionVersions, AStructThatHasGrownIsReadInEachLength) {
  HelloReply reply;
  reply.session = 7;
  reply.most_operations = 9;
  reply.oldest_version = 19;
  reply.latest_version = 21;
  const auto before = Encode(MessageType::kHello, reply, {}, 20);
  const auto now = Encode(MessageType::kHello, reply, {}, 21);
  EXPECT_EQ(now.size() - before.size(), 2 * sizeof(uint32_t));
  const Result<HelloReply> short_one = DecodeBody<HelloReply>(HeaderOf(before), before);
  ASSERT_TRUE(short_one.ok());
  EXPECT_EQ(short_one->session, 7u);
  EXPECT_EQ(short_one->most_operations, 9u);
  EXPECT_EQ(short_one->latest_version, 0u);
  const Result<HelloReply> long_one = DecodeBody<HelloReply>(HeaderOf(now), now);
  ASSERT_TRUE(long_one.ok());
  EXPECT_EQ(long_one->latest_version, 21u);
  MessageHeader mislabelled = HeaderOf(now);
  mislabelled.version = 20;
  EXPECT_FALSE(DecodeBody<HelloReply>(mislabelled, now).ok());
}

TEST(SessionVersions, AnEnvironmentMayNameOthers) {
  unsetenv("HARMONAIZE_PROTOCOL");
  EXPECT_EQ(*ClientVersions(), kSessionVersions);
  setenv("HARMONAIZE_PROTOCOL", "19-20", 1);
  EXPECT_EQ(*ClientVersions(), (VersionRange{19, 20}));
  setenv("HARMONAIZE_PROTOCOL", "twenty", 1);
  EXPECT_EQ(ClientVersions().status().code(), Code::kInvalidArgument);
  unsetenv("HARMONAIZE_PROTOCOL");
}

// The memory that client and daemon, and clients of one communicator, share has one layout in all
// versions that a release speaks. Whoever changes it raises kOldestProtocolVersion, or keeps the
// layout by taking room that is free, and zero until then.
TEST(SessionVersions, SharedMemoryHasOneLayoutInAllOfThem) {
  static_assert(kOldestProtocolVersion == 19 && kProtocolVersion == 23);
  static_assert(sizeof(MessageHeader) == 16 && sizeof(UniqueId) == 128);
  static_assert(sizeof(OperationDescriptor) == 128 && sizeof(StreamSlot) == 64);
  static_assert(sizeof(SliceProgress) == 192 && sizeof(MemberSlot) == 2432);
  static_assert(sizeof(InlineSlot) == 384 && sizeof(StockNcclSlot) == 64);
  static_assert(offsetof(SessionHeader, goodbye) == 48);
  static_assert(offsetof(SessionHeader, ending) == 568);
  static_assert(offsetof(SessionSegment, ring) == 576);
  static_assert(offsetof(SessionSegment, retired) == 131840);
  static_assert(offsetof(SessionSegment, streams) == 131904);
  static_assert(offsetof(SessionSegment, members) == 459584);
  static_assert(offsetof(MemberSlot, lanes) == 64);
  static_assert(offsetof(MemberSlot, inline_path) == 1024);
  static_assert(offsetof(MemberSlot, job) == 1472);
  static_assert(offsetof(MemberSlot, error) == 1544);
  static_assert(offsetof(MemberSlot, notice) == 2064);
  static_assert(sizeof(SessionSegment) == 10421056);
  EXPECT_EQ(InlineLayout(2).bytes(), 1056768u);
  EXPECT_EQ(InlineLayout(kMaxInlineRanks).bytes(), 143544320u);
}

}  // namespace
}  // namespace harmonaize
