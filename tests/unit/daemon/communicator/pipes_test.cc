#include "daemon/communicator/pipes.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "daemon/tenant/member.h"

namespace harmonaize::daemon {
namespace {

class PipesTest : public ::testing::Test {
 protected:
  PipesTest() {
    for (int rank = 0; rank < kRanksWithPipes; ++rank)
      members_[static_cast<size_t>(rank)].rank = rank;
  }
  /// A message that a rank has posted to the other one.
  PostedOperation* Message(Collective collective, int rank, uint64_t name, uint32_t pipe = 1) {
    messages_.push_back(std::make_unique<PostedOperation>());
    PostedOperation* const message = messages_.back().get();
    message->member = &members_[static_cast<size_t>(rank)];
    message->descriptor.collective = collective;
    message->descriptor.root = 1 - rank;
    message->descriptor.sequence = name;
    message->descriptor.scalar = pipe;
    return message;
  }
  PostedOperation* Send(uint64_t name, uint32_t pipe = 1) {
    return Message(Collective::kSend, 0, name, pipe);
  }
  PostedOperation* Receive(uint64_t name, uint32_t pipe = 1) {
    return Message(Collective::kReceive, 1, name, pipe);
  }
  void ExpectWaits(PostedOperation* message) {
    const auto match = pipes_.Add(message);
    ASSERT_TRUE(match.ok()) << match.status().message();
    EXPECT_FALSE(match->has_value());
  }
  void ExpectMatch(PostedOperation* last, PostedOperation* send, PostedOperation* receive) {
    const auto match = pipes_.Add(last);
    ASSERT_TRUE(match.ok()) << match.status().message();
    ASSERT_TRUE(match->has_value());
    EXPECT_EQ((*match)->send, send);
    EXPECT_EQ((*match)->receive, receive);
  }
  Code Refused(PostedOperation* message) { return pipes_.Add(message).status().code(); }

  std::array<Member, kRanksWithPipes> members_;
  std::vector<std::unique_ptr<PostedOperation>> messages_;
  Pipes pipes_;
};

TEST_F(PipesTest, MessagesMatchByNameWhicheverHalfComesFirst) {
  PostedOperation* const sends[] = {Send(1), Send(2), Send(3)};
  PostedOperation* const receives[] = {Receive(1), Receive(2), Receive(3)};
  ExpectWaits(sends[0]);
  ExpectWaits(receives[2]);
  ExpectWaits(sends[1]);
  ExpectMatch(receives[1], sends[1], receives[1]);
  ExpectMatch(sends[2], sends[2], receives[2]);
  ExpectMatch(receives[0], sends[0], receives[0]);
  EXPECT_EQ(pipes_.size(), 0u);
}

TEST_F(PipesTest, PipesAndDirectionsAreApart) {
  PostedOperation* const send = Send(1);
  ExpectWaits(send);
  ExpectWaits(Receive(1, 2));
  ExpectWaits(Message(Collective::kSend, 1, 1));
  ExpectWaits(Message(Collective::kReceive, 1, 2));
  PostedOperation* const receive = Receive(1);
  ExpectMatch(receive, send, receive);
}

TEST_F(PipesTest, ANameIsUsedOnceAtATime) {
  ExpectWaits(Send(1));
  EXPECT_EQ(Refused(Send(1)), Code::kInvalidUsage);
  ExpectWaits(Receive(2));
  EXPECT_EQ(Refused(Receive(2)), Code::kInvalidUsage);
  EXPECT_TRUE(pipes_.Add(Receive(1)).ok());
  ExpectWaits(Send(1));  // the first one has gone
}

TEST_F(PipesTest, AnEndHasSoManyMessagesAtMost) {
  for (uint64_t name = 0; name < kMostMessagesOfPipe; ++name) {
    ExpectWaits(name % 2 == 0 ? Send(name) : Message(Collective::kReceive, 0, name));
  }
  EXPECT_EQ(Refused(Send(kMostMessagesOfPipe)), Code::kInvalidUsage);
  ExpectWaits(Send(0, 2));
  // What the other rank posts is its own, and makes room.
  EXPECT_TRUE(pipes_.Add(Receive(0)).ok());
  ExpectWaits(Send(kMostMessagesOfPipe));
}

TEST_F(PipesTest, ClosingEndsWhatWaitsAtBothEndsAndRefusesWhatComes) {
  PostedOperation* const send = Send(1);
  PostedOperation* const receive = Receive(2);
  PostedOperation* const other = Send(1, 2);
  for (PostedOperation* message : {send, receive, other}) ExpectWaits(message);
  EXPECT_EQ(pipes_.Close(PipeOf(*send)), (std::vector<PostedOperation*>{send, receive}));
  EXPECT_EQ(Refused(Send(3)), Code::kInvalidUsage);
  EXPECT_EQ(Refused(Receive(3)), Code::kRemoteError);
  EXPECT_TRUE(pipes_.Close(PipeOf(*send)).empty());
  // Once both ends are closed nothing is kept of the pipe.
  EXPECT_TRUE(pipes_.Close(PipeOf(*receive)).empty());
  EXPECT_EQ(pipes_.size(), 1u);
  EXPECT_EQ(pipes_.TakeAll(), std::vector<PostedOperation*>{other});
  EXPECT_EQ(pipes_.size(), 0u);
}

TEST_F(PipesTest, ARankThatLeavesTakesAllMessagesAlong) {
  PostedOperation* const send = Send(1);
  PostedOperation* const receive = Receive(2, 7);
  ExpectWaits(send);
  ExpectWaits(receive);
  EXPECT_EQ(pipes_.TakeWith(1), (std::vector<PostedOperation*>{send, receive}));
  EXPECT_EQ(pipes_.size(), 0u);
}

}  // namespace
}  // namespace harmonaize::daemon
