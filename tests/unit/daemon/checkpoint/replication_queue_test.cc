#include "daemon/checkpoint/replication_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::daemon {
namespace {

PartName NamedPart(uint32_t tenant, uint64_t save, int rank) {
  return {.job = {tenant, JobIdentity{{1}}}, .save = save, .rank = rank};
}

TEST(ReplicationQueue, FewAreCopiedAtATime) {
  ReplicationQueue queue;
  for (int rank = 0; rank < 5; ++rank) queue.Add(NamedPart(1, 7, rank));
  std::vector<PartName> begun;
  while (const std::optional<PartName> next = queue.Next(100)) begun.push_back(*next);
  ASSERT_EQ(begun.size(), ReplicationQueue::kMostAtOnce);
  EXPECT_TRUE(queue.End(begun.front()));
  EXPECT_FALSE(queue.End(begun.front())) << "it has ended";
  EXPECT_TRUE(queue.Next(100).has_value());
  EXPECT_FALSE(queue.Next(100).has_value());
}

TEST(ReplicationQueue, TenantsTakeTurns) {
  ReplicationQueue queue;
  for (int rank = 0; rank < 100; ++rank) queue.Add(NamedPart(1, 7, rank));
  queue.Add(NamedPart(2, 8, 0));
  std::vector<uint32_t> tenants;
  for (int i = 0; i < 3; ++i) {
    const std::optional<PartName> next = queue.Next(100);
    ASSERT_TRUE(next.has_value());
    tenants.push_back(next->job.first);
    queue.End(*next);
  }
  EXPECT_EQ(tenants, (std::vector<uint32_t>{1, 2, 1}));
}

TEST(ReplicationQueue, ANewerSaveTakesAnOldersPlace) {
  ReplicationQueue queue;
  queue.Add(NamedPart(1, 7, 0));
  queue.Add(NamedPart(1, 8, 0));
  EXPECT_EQ(queue.Next(100)->save, 8u);
  EXPECT_FALSE(queue.Next(100).has_value());
}

TEST(ReplicationQueue, ANewerSaveOfOneOfManyRanksKeepsItsTurn) {
  constexpr int kRanks = 20'000;
  ReplicationQueue queue;
  for (const uint64_t save : {7u, 8u}) {
    for (int rank = 0; rank < kRanks; ++rank) queue.Add(NamedPart(1, save, rank));
  }
  queue.Add(NamedPart(1, 9, 0));
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::optional<PartName> next = queue.Next(100);
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(*next, NamedPart(1, rank == 0 ? 9 : 8, rank));
    queue.End(*next);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(ReplicationQueue, OnesWithoutAnEndMakeRoom) {
  ReplicationQueue queue;
  for (int rank = 0; rank < 4; ++rank) queue.Add(NamedPart(1, 7, rank));
  while (queue.Next(100).has_value()) continue;
  EXPECT_TRUE(queue.Next(101 + ReplicationQueue::kPatienceNs).has_value());
}

TEST(ReplicationQueue, IsEmptyAtTheEnd) {
  ReplicationQueue queue;
  EXPECT_TRUE(queue.empty());
  queue.Add(NamedPart(1, 7, 0));
  const PartName name = *queue.Next(100);
  EXPECT_FALSE(queue.empty());
  queue.End(name);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace harmonaize::daemon
