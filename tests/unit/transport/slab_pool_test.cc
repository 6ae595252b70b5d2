#include "src/transport/link/slab_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace harmonaize::transport {
namespace {

/// Counts how many exist.
struct Item : SlabItem {
  Item() { ++alive; }
  ~Item() { --alive; }
  inline static size_t alive = 0;
};
using Pool = SlabPool<Item>;

TEST(SlabPool, ABurstDoesNotLeaveItsMemoryBehind) {
  Pool pool;
  std::vector<Item*> taken;
  constexpr size_t kMany = 10 * Pool::kKept;
  for (size_t i = 0; i < kMany; ++i) taken.push_back(pool.Take());
  EXPECT_GE(Item::alive, kMany);
  for (Item* item : taken) pool.GiveBack(item);
  EXPECT_LT(Item::alive, 2 * Pool::kKept);
  // A few that stay keep their slabs.
  taken.clear();
  for (size_t i = 0; i < kMany; ++i) taken.push_back(pool.Take());
  for (size_t i = 1; i < kMany; ++i) pool.GiveBack(taken[i]);
  EXPECT_LT(Item::alive, 2 * Pool::kKept);
  EXPECT_EQ(pool.At(taken[0]->index), taken[0]);
}

TEST(SlabPool, AnIndexWithAGenerationIsNeverTakenForAnother) {
  Pool pool;
  std::mt19937 random(3);
  std::set<std::pair<uint32_t, uint32_t>> seen;
  std::vector<Item*> taken;
  for (int i = 0; i < 200'000; ++i) {
    // In waves, so that slabs come and go.
    const bool grows = i / 20'000 % 2 == 0;
    if (taken.empty() || random() % 10 < (grows ? 9u : 1u)) {
      Item* const item = pool.Take();
      ++item->generation;
      ASSERT_TRUE(seen.emplace(item->index, item->generation).second);
      ASSERT_EQ(pool.At(item->index), item);
      taken.push_back(item);
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      pool.GiveBack(taken.back());
      taken.pop_back();
    }
  }
  size_t all = 0;
  pool.ForEach([&](Item&) { ++all; });
  EXPECT_EQ(all, Item::alive);
}

}  // namespace
}  // namespace harmonaize::transport
