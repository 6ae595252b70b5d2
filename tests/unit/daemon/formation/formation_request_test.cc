// A rank's request, and how another daemon is told of it.

#include "daemon/formation/formation_request.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/communicator/communicator_registry.h"

namespace harmonaize::daemon {
namespace {

TEST(FormationRequest, AJoinIsTheSameAtItsHome) {
  const CommunicatorRegistry communicators;
  const FormationRequest request{.kind = FormationKind::kJoin,
                                 .id = MakeNamedId("meeting"),
                                 .ranks = 3,
                                 .rank = 2,
                                 .name = "name",
                                 .user = 1000};
  const ApplyMessage message = EncodeRequest(request, communicators);
  EXPECT_TRUE(message.takes_part);
  EXPECT_EQ(message.communicator, 0u);
  const Result<FormationRequest> decoded = DecodeRequest(message, communicators);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->kind, request.kind);
  EXPECT_EQ(decoded->id, request.id);
  EXPECT_EQ(decoded->ranks, request.ranks);
  EXPECT_EQ(decoded->rank, request.rank);
  EXPECT_EQ(decoded->name, request.name);
  EXPECT_EQ(decoded->user, request.user);
  EXPECT_TRUE(decoded->gets_communicator());
}

TEST(FormationRequest, ASplitWithoutAColorGetsNoCommunicator) {
  const CommunicatorRegistry communicators;
  ApplyMessage message{.kind = FormationKind::kSplit, .communicator = 7, .color = 5, .key = -1};
  Result<FormationRequest> decoded = DecodeRequest(message, communicators);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->color, 5);
  EXPECT_EQ(decoded->key, -1);
  EXPECT_TRUE(decoded->gets_communicator());
  EXPECT_EQ(decoded->parent, 0u);  // there is none of this key
  message.takes_part = false;
  decoded = DecodeRequest(message, communicators);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->color, std::nullopt);
  EXPECT_FALSE(decoded->gets_communicator());
}

TEST(FormationRequest, BytesThatAreNoIdAreRefused) {
  const CommunicatorRegistry communicators;
  for (const FormationKind kind : {FormationKind::kJoin, FormationKind::kJoinGrowth}) {
    const Result<FormationRequest> none = DecodeRequest({.kind = kind}, communicators);
    EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(none.status().message(), "a unique id of the wrong size");
    const std::vector<uint8_t> zeros(sizeof(UniqueId));
    const Result<FormationRequest> foreign =
        DecodeRequest({.kind = kind, .id = zeros}, communicators);
    EXPECT_EQ(foreign.status().code(), Code::kInvalidArgument);
  }
  // Others do not go by an id.
  EXPECT_TRUE(DecodeRequest({.kind = FormationKind::kShrink}, communicators).ok());
}

}  // namespace
}  // namespace harmonaize::daemon
