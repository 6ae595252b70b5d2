#include "daemon/tenant/stream_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace harmonaize::daemon {
namespace {

class StreamQueueTest : public ::testing::Test {
 protected:
  /// Returns an operation at `position`; `last` closes the position.
  PostedOperation* At(uint64_t position, bool last) {
    operations_.push_back(std::make_unique<PostedOperation>());
    operations_.back()->descriptor.position = position;
    operations_.back()->descriptor.flags = last ? kLastOfPosition : 0;
    return operations_.back().get();
  }
  uint64_t completed() const { return slot_.completed.load(); }
  /// Does what the engine does at the end of a round in which the queue asked for it.
  void Finish() {
    if (queue_.Finish(&ready_)) queue_.Publish();
  }

  StreamSlot slot_{};
  StreamQueue queue_{&slot_};
  std::vector<PostedOperation*> ready_;
  std::vector<std::unique_ptr<PostedOperation>> operations_;
};

TEST_F(StreamQueueTest, PositionsFollowOneAnother) {
  EXPECT_TRUE(queue_.Arrive(At(1, true)));
  EXPECT_FALSE(queue_.Arrive(At(2, true)));
  EXPECT_EQ(completed(), 0u);
  Finish();
  EXPECT_EQ(completed(), 1u);
  ASSERT_EQ(ready_.size(), 1u);
  EXPECT_EQ(ready_[0], operations_[1].get());
  Finish();
  EXPECT_EQ(completed(), 2u);
  EXPECT_TRUE(queue_.idle());
}

TEST_F(StreamQueueTest, OperationsOfOnePositionRunSideBySide) {
  EXPECT_TRUE(queue_.Arrive(At(1, false)));
  Finish();
  EXPECT_EQ(completed(), 0u) << "the position is not closed yet";
  EXPECT_TRUE(queue_.Arrive(At(1, false)));
  EXPECT_TRUE(queue_.Arrive(At(1, true)));
  Finish();
  EXPECT_EQ(completed(), 0u);
  Finish();
  EXPECT_EQ(completed(), 1u);
}

// A rank that waits for room learns of each operation, whoever owns the slot by then.
TEST_F(StreamQueueTest, EveryOperationThatEndsIsCounted) {
  queue_.Arrive(At(1, false));
  queue_.Arrive(At(1, true));
  Finish();
  EXPECT_EQ(completed(), 0u);
  EXPECT_EQ(slot_.ended.load(), 1u);
  Finish();
  EXPECT_EQ(slot_.ended.load(), 2u);
  queue_.Reset();
  queue_.Arrive(At(1, true));
  Finish();
  EXPECT_EQ(completed(), 1u);
  EXPECT_EQ(slot_.ended.load(), 3u);
}

TEST_F(StreamQueueTest, AWholePositionBecomesReadyAtOnce) {
  queue_.Arrive(At(1, true));
  queue_.Arrive(At(2, false));
  queue_.Arrive(At(2, true));
  queue_.Arrive(At(3, true));
  Finish();
  EXPECT_EQ(ready_.size(), 2u);
}

TEST_F(StreamQueueTest, OnlyTheNextPositionIsAccepted) {
  EXPECT_FALSE(queue_.Accepts(0));
  EXPECT_TRUE(queue_.Accepts(1));
  EXPECT_FALSE(queue_.Accepts(2));
  queue_.Arrive(At(1, false));
  EXPECT_TRUE(queue_.Accepts(1));
  EXPECT_FALSE(queue_.Accepts(2));
  queue_.Arrive(At(1, true));
  EXPECT_FALSE(queue_.Accepts(1));
  EXPECT_TRUE(queue_.Accepts(2));
}

TEST_F(StreamQueueTest, FailuresAreCounted) {
  queue_.Arrive(At(1, true));
  queue_.NoteFailure(Code::kInvalidUsage, 7);
  Finish();
  EXPECT_EQ(slot_.error_count.load(), 1u);
  EXPECT_EQ(slot_.error_code.load(), static_cast<uint32_t>(Code::kInvalidUsage));
  EXPECT_EQ(slot_.error_member.load(), 7u);
}

// However many positions are done in a round: one store, and at most one wake-up.
TEST_F(StreamQueueTest, AsksOnceForAllThatIsDoneInARound) {
  for (uint64_t position = 1; position <= 10; ++position) queue_.Arrive(At(position, true));
  EXPECT_TRUE(queue_.Finish(&ready_));
  for (int i = 1; i < 10; ++i) EXPECT_FALSE(queue_.Finish(&ready_));
  EXPECT_EQ(completed(), 0u);
  queue_.Publish();
  EXPECT_EQ(completed(), 10u);
  queue_.Arrive(At(11, true));
  EXPECT_TRUE(queue_.Finish(&ready_)) << "it has not been told of this one";
}

TEST_F(StreamQueueTest, WakesNobodyWhoIsAwake) {
  queue_.Arrive(At(1, true));
  Finish();
  EXPECT_FALSE(queue_.WakeReached());
}

TEST_F(StreamQueueTest, WakesASleeperOnceAndNotBeforeItsPosition) {
  for (uint64_t position = 1; position <= 4; ++position) queue_.Arrive(At(position, true));
  slot_.waiters = 1;
  EXPECT_EQ(MarkAwaited(&slot_, 3), 3u);
  Finish();
  EXPECT_FALSE(queue_.WakeReached());
  Finish();
  EXPECT_FALSE(queue_.WakeReached());
  Finish();
  EXPECT_TRUE(queue_.WakeReached());
  EXPECT_EQ(slot_.awaited.load(), 0u);
  Finish();
  EXPECT_FALSE(queue_.WakeReached()) << "it has been woken and has not marked again";
}

// Whatever a tenant writes into its slot, a publication costs the daemon one wake-up at most.
TEST_F(StreamQueueTest, AHostileMarkCostsOneWakeUpAtMost) {
  uint64_t position = 0;
  for (const uint32_t mark : {0u, 1u, 0x7fffffffu, 0x80000000u, ~0u}) {
    queue_.Arrive(At(++position, true));
    slot_.waiters = ~0u;
    slot_.awaited = mark;
    Finish();
    const int wakes = (queue_.WakeReached() ? 1 : 0) + (queue_.WakeReached() ? 1 : 0);
    EXPECT_LE(wakes, 1) << mark;
    EXPECT_EQ(completed(), position);
  }
}

TEST_F(StreamQueueTest, DoesNotBelieveItsSlot) {
  queue_.Arrive(At(1, true));
  slot_.completed.store(99);  // the tenant writes where it should not
  Finish();
  EXPECT_EQ(completed(), 1u);
}

}  // namespace
}  // namespace harmonaize::daemon
