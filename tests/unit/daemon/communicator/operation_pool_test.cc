#include "daemon/communicator/operation_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::daemon {
namespace {

class OperationPoolTest : public ::testing::Test {
 protected:
  MatchedOperation* Take(size_t parts, size_t ranks) {
    const Result<MatchedOperation*> taken = pool_.Take(parts, ranks);
    EXPECT_TRUE(taken.ok());
    return taken.ok() ? *taken : nullptr;
  }

  int64_t paid_ = 0;
  int64_t limit_ = 1 << 20;
  OperationPool pool_{nullptr, [this](int64_t bytes) {
                        if (paid_ + bytes > limit_) return InvalidUsage("no more");
                        paid_ += bytes;
                        return Status::Ok();
                      }};
};

TEST_F(OperationPoolTest, WhatIsReusedIsNotPaidForAgain) {
  MatchedOperation* const first = Take(4, 4);
  const int64_t paid = paid_;
  EXPECT_GE(paid, static_cast<int64_t>(sizeof(MatchedOperation)));
  pool_.GiveBack(first);
  EXPECT_EQ(Take(4, 4), first);
  EXPECT_EQ(paid_, paid);
  EXPECT_NE(Take(4, 4), first);
  EXPECT_EQ(paid_, 2 * paid);
}

// A pair's operation may come to be that of a collective of thousands of ranks.
TEST_F(OperationPoolTest, WhatGrowsIsPaidFor) {
  pool_.GiveBack(Take(2, 2));
  const int64_t pair = paid_;
  MatchedOperation* const grown = Take(1000, 1000);
  EXPECT_EQ(grown->parts.size(), 1000u);
  const int64_t collective = paid_;
  EXPECT_GE(collective - pair, 998 * 32);
  pool_.GiveBack(grown);
  pool_.GiveBack(Take(2, 2));
  Take(1000, 1000);
  EXPECT_EQ(paid_, collective);
}

// Over hosts the buffers are listed by rank of the whole communicator.
TEST_F(OperationPoolTest, RanksOfOtherHostsArePaidFor) {
  Take(1, 1000);
  EXPECT_GE(paid_, 999 * 32);
}

TEST_F(OperationPoolTest, WhatCannotBePaidForIsNotTaken) {
  MatchedOperation* const small = Take(2, 2);
  pool_.GiveBack(small);
  limit_ = paid_;
  EXPECT_FALSE(pool_.Take(1000, 1000).ok());
  EXPECT_EQ(Take(2, 2), small);
}

}  // namespace
}  // namespace harmonaize::daemon
