#include "daemon/communicator/pair_matcher.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "daemon/communicator/doomed.h"
#include "daemon/tenant/member.h"

namespace harmonaize::daemon {
namespace {

class PairMatcherTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  PairMatcherTest() {
    for (int rank = 0; rank < kRanks; ++rank) members_[static_cast<size_t>(rank)].rank = rank;
  }
  PostedOperation* Half(Collective collective, int rank, int peer) {
    parts_.push_back(std::make_unique<PostedOperation>());
    PostedOperation* const part = parts_.back().get();
    part->member = &members_[static_cast<size_t>(rank)];
    part->descriptor.collective = collective;
    part->descriptor.root = peer;
    return part;
  }
  PostedOperation* Send(int from, int to) { return Half(Collective::kSend, from, to); }
  PostedOperation* Receive(int from, int at) { return Half(Collective::kReceive, at, from); }

  std::array<Member, kRanks> members_;
  std::vector<std::unique_ptr<PostedOperation>> parts_;
  PairMatcher pairs_;
};

TEST_F(PairMatcherTest, MatchesInOrderWhicheverHalfComesFirst) {
  PostedOperation* const first = Send(0, 1);
  PostedOperation* const second = Send(0, 1);
  PostedOperation* const back = Receive(1, 0);
  for (PostedOperation* part : {first, second, back}) EXPECT_FALSE(pairs_.Add(part).has_value());
  EXPECT_EQ(pairs_.size(), 3u);
  EXPECT_EQ(pairs_.pairs(), 2u);
  for (PostedOperation* const sent : {first, second}) {
    PostedOperation* const receive = Receive(0, 1);
    const auto match = pairs_.Add(receive);
    ASSERT_TRUE(match.has_value());
    EXPECT_EQ(match->send, sent);
    EXPECT_EQ(match->receive, receive);
  }
  EXPECT_FALSE(pairs_.Add(Receive(0, 1)).has_value());
  PostedOperation* const answer = Send(1, 0);
  const auto match = pairs_.Add(answer);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->send, answer);
  EXPECT_EQ(match->receive, back);
  EXPECT_EQ(pairs_.size(), 1u);
}

TEST_F(PairMatcherTest, ARankMeetsItself) {
  PostedOperation* const send = Send(2, 2);
  EXPECT_FALSE(pairs_.Add(send).has_value());
  const auto match = pairs_.Add(Receive(2, 2));
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->send, send);
  EXPECT_EQ(pairs_.pairs(), 0u);
}

TEST_F(PairMatcherTest, TakesTheHalvesOfARank) {
  PostedOperation* const to_it = Send(0, 1);
  PostedOperation* const also = Send(0, 1);
  PostedOperation* const of_it = Receive(3, 1);
  PostedOperation* const others = Send(2, 3);
  for (PostedOperation* part : {to_it, also, of_it, others}) pairs_.Add(part);
  EXPECT_EQ(pairs_.TakeWith(1), (std::vector<PostedOperation*>{to_it, also, of_it}));
  EXPECT_EQ(pairs_.size(), 1u);
  EXPECT_EQ(pairs_.TakeAll(), std::vector<PostedOperation*>{others});
  EXPECT_EQ(pairs_.size(), 0u);
  EXPECT_FALSE(pairs_.Add(Send(0, 1)).has_value()) << "nothing of before is left";
}

TEST_F(PairMatcherTest, EachLookGoesOnBehindTheLastOne) {
  for (const int peer : {1, 2, 3}) pairs_.Add(Send(0, peer));
  std::vector<int> seen;
  const auto look = [&](PostedOperation* part, uint64_t*) {
    seen.push_back(part->descriptor.root);
  };
  pairs_.LookAtSome(2, look);
  pairs_.LookAtSome(2, look);
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 1}));
  seen.clear();
  pairs_.LookAtSome(100, look);
  EXPECT_EQ(seen, (std::vector<int>{2, 3, 1})) << "each once";
}

TEST(DoomedTest, FailsInPortionsAndInOrder) {
  Doomed doomed;
  std::array<MatchedOperation, 3> operations;
  std::array<PostedOperation, 2> parts;
  for (MatchedOperation& operation : operations) operation.parts.resize(2);
  doomed.Add({&operations[0], &operations[1]}, {&parts[0]}, RemoteError("first"));
  doomed.Add({&operations[2]}, {&parts[1]}, RemoteError("second"));
  EXPECT_TRUE(operations[2].doomed);
  std::vector<const void*> failed;
  std::vector<std::string> whys;
  const auto fail = [&](const void* one, const Status& why) {
    failed.push_back(one);
    whys.push_back(why.message());
  };
  doomed.FailSome(3, fail, fail);
  EXPECT_EQ(failed.size(), 2u);
  EXPECT_FALSE(doomed.empty());
  doomed.FailSome(100, fail, fail);
  EXPECT_TRUE(doomed.empty());
  EXPECT_EQ(failed, (std::vector<const void*>{&operations[0], &operations[1], &parts[0],
                                              &operations[2], &parts[1]}));
  EXPECT_EQ(whys, (std::vector<std::string>{"first", "first", "first", "second", "second"}));
}

}  // namespace
}  // namespace harmonaize::daemon
