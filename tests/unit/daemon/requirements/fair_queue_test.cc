#include "daemon/requirements/fair_queue.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace harmonaize::daemon {
namespace {

using Taken = std::vector<std::pair<uint32_t, int>>;

Taken TakeAll(FairQueue<int>& queue) {
  Taken taken;
  while (const auto next = queue.Next()) taken.push_back(*next);
  return taken;
}

TEST(FairQueue, TenantsTakeTurns) {
  FairQueue<int> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.Next().has_value());
  for (int item = 0; item < 4; ++item) queue.Add(1, item);
  queue.Add(2, 0);
  queue.Add(3, 7);
  queue.Add(2, 1);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(TakeAll(queue), (Taken{{1, 0}, {2, 0}, {3, 7}, {1, 1}, {2, 1}, {1, 2}, {1, 3}}));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, WhatWaitsIsNotAddedAgain) {
  FairQueue<int> queue;
  queue.Add(1, 5);
  queue.Add(1, 5);
  queue.Add(2, 5);
  EXPECT_EQ(queue.Next(), std::pair(1U, 5));
  queue.Add(1, 5);
  EXPECT_EQ(TakeAll(queue), (Taken{{2, 5}, {1, 5}}));
}

}  // namespace
}  // namespace harmonaize::daemon
