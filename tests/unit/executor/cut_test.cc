#include "src/executor/host/cut.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace harmonaize {
namespace {

constexpr Machine kMachine{.workers = 2, .cache_bytes = 1 << 20, .last_level_bytes = 32 << 20};

WorkShape AllReduceOfTwo(uint64_t bytes) {
  return {.block_elements = bytes / 4,
          .element_bytes = 4,
          .steps = 1,
          .references = 4,
          .step_references = 4,
          .staging_slots = 0,
          .scratch_blocks = 0,
          .ordered = false,
          .participants = 2};
}

Cut CutOrFail(const WorkShape& shape) {
  Result<Cut> cut = CutWork(shape, kMachine);
  EXPECT_TRUE(cut.ok()) << cut.status().ToString();
  return cut.ok() ? *cut : Cut{};
}

TEST(CutWork, NothingIsNoUnit) {
  EXPECT_EQ(CutOrFail(AllReduceOfTwo(0)).units, 0u);
  WorkShape no_steps = AllReduceOfTwo(1 << 20);
  no_steps.steps = 0;
  EXPECT_EQ(CutOrFail(no_steps).units, 0u);
}

TEST(CutWork, SmallWorkIsNotShared) {
  EXPECT_EQ(CutOrFail(AllReduceOfTwo(4)).units, 1u);
  EXPECT_EQ(CutOrFail(AllReduceOfTwo(64 << 10)).units, 1u);
  WorkShape many_small_steps = AllReduceOfTwo(64);
  many_small_steps.steps = 64;
  many_small_steps.references = 64 * 2;
  many_small_steps.step_references = 2;
  EXPECT_EQ(CutOrFail(many_small_steps).units, 1u);
}

TEST(CutWork, LargeWorkIsSharedEvenly) {
  EXPECT_EQ(CutOrFail(AllReduceOfTwo(256 << 10)).units, 2u);
  for (uint64_t bytes : {1 << 20, 1234568, 5 << 20, 128 << 20}) {
    const Cut cut = CutOrFail(AllReduceOfTwo(bytes));
    EXPECT_EQ(cut.units % 2, 0u) << bytes;
    const uint64_t last = bytes / 4 - (cut.slices - 1) * cut.slice_elements;
    EXPECT_GE(last * 2, cut.slice_elements) << bytes;
  }
}

TEST(CutWork, WorkThatOthersWaitForIsCutFiner) {
  WorkShape shape = AllReduceOfTwo(64 << 20);
  const uint32_t alone = CutOrFail(shape).units;
  shape.shared = true;
  EXPECT_EQ(CutOrFail(shape).units, 2 * alone);
}

TEST(CutWork, StagedDataStaysInHalfTheCache) {
  WorkShape shape = AllReduceOfTwo(64 << 20);
  for (int slots : {1, 2, 3, 9, 65}) {
    shape.staging_slots = slots;
    const Cut cut = CutOrFail(shape);
    EXPECT_LE(cut.slice_elements * 4 * static_cast<uint64_t>(slots), kMachine.cache_bytes / 2);
    EXPECT_GE(cut.staging_bytes, cut.slice_elements * 4 * static_cast<uint64_t>(slots));
    if (slots <= 64) {
      EXPECT_LE(cut.staging_bytes, UsualStagingBytes(kMachine));
    }
  }
}

TEST(CutWork, RefusesWhatCannotBeCounted) {
  WorkShape shape = AllReduceOfTwo(uint64_t{1} << 62);
  EXPECT_EQ(CutWork(shape, kMachine).status().code(), Code::kInvalidArgument);
}

// Whatever the shape: the units cover each element of each step exactly once.
TEST(CutWork, CoversEverythingOnce) {
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 2000; ++round) {
    WorkShape shape;
    shape.element_bytes = size_t{1} << below(4);
    shape.block_elements = 1 + below(uint64_t{1} << (1 + below(22)));
    shape.steps = static_cast<int>(1 + below(20));
    shape.step_references = 2 + below(16);
    shape.references = shape.step_references * static_cast<uint64_t>(shape.steps);
    shape.staging_slots = static_cast<int>(below(10));
    shape.ordered = below(2) == 0;
    shape.scratch_blocks = shape.ordered ? static_cast<int>(below(5)) : 0;
    shape.participants = static_cast<int>(1 + below(16));
    const Cut cut = CutOrFail(shape);
    ASSERT_GT(cut.units, 0u);
    ASSERT_EQ(cut.slice_elements * shape.element_bytes % 64, 0u);
    std::vector<uint64_t> covered(static_cast<size_t>(shape.steps));
    for (uint32_t unit = 0; unit < cut.units; ++unit) {
      const UnitExtent extent = ExtentOfUnit(cut, shape.steps, unit);
      ASSERT_LT(extent.first_step, extent.end_step);
      ASSERT_LE(extent.end_step, shape.steps);
      ASSERT_LT(extent.first_element, shape.block_elements);
      ASSERT_TRUE(!shape.ordered || extent.end_step - extent.first_step == shape.steps);
      for (int s = extent.first_step; s < extent.end_step; ++s) {
        // Units of a step come in the order of its elements.
        ASSERT_EQ(covered[static_cast<size_t>(s)], extent.first_element);
        covered[static_cast<size_t>(s)] = extent.end_element;
      }
    }
    for (uint64_t end : covered) ASSERT_GE(end, shape.block_elements);
  }
}

}  // namespace
}  // namespace harmonaize
