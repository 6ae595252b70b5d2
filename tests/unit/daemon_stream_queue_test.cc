#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "daemon/stream_queue.h"

namespace harmonaize::daemon {
namespace {

class StreamQueueTest : public ::testing::Test {
 protected:
  /// An operation at `position`; `last` closes the position.
  PostedOperation* At(uint64_t position, bool last) {
    operations_.push_back(std::make_unique<PostedOperation>());
    operations_.back()->descriptor.position = position;
    operations_.back()->descriptor.flags = last ? kLastOfPosition : 0;
    return operations_.back().get();
  }
  uint64_t completed() const { return slot_.completed.load(); }

  StreamSlot slot_{};
  StreamQueue queue_{&slot_};
  std::vector<PostedOperation*> ready_;
  std::vector<std::unique_ptr<PostedOperation>> operations_;
};

TEST_F(StreamQueueTest, PositionsFollowOneAnother) {
  EXPECT_TRUE(queue_.Arrive(At(1, true)));
  EXPECT_FALSE(queue_.Arrive(At(2, true)));
  EXPECT_EQ(completed(), 0u);
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 1u);
  ASSERT_EQ(ready_.size(), 1u);
  EXPECT_EQ(ready_[0], operations_[1].get());
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 2u);
  EXPECT_TRUE(queue_.idle());
}

TEST_F(StreamQueueTest, OperationsOfOnePositionRunSideBySide) {
  EXPECT_TRUE(queue_.Arrive(At(1, false)));
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 0u) << "the position is not closed yet";
  EXPECT_TRUE(queue_.Arrive(At(1, false)));
  EXPECT_TRUE(queue_.Arrive(At(1, true)));
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 0u);
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 1u);
}

TEST_F(StreamQueueTest, AWholePositionBecomesReadyAtOnce) {
  queue_.Arrive(At(1, true));
  queue_.Arrive(At(2, false));
  queue_.Arrive(At(2, true));
  queue_.Arrive(At(3, true));
  queue_.Finish(&ready_);
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
  queue_.Finish(&ready_);
  EXPECT_EQ(slot_.error_count.load(), 1u);
  EXPECT_EQ(slot_.error_code.load(), static_cast<uint32_t>(Code::kInvalidUsage));
  EXPECT_EQ(slot_.error_member.load(), 7u);
}

TEST_F(StreamQueueTest, DoesNotBelieveItsSlot) {
  queue_.Arrive(At(1, true));
  slot_.completed.store(99);  // the tenant writes where it should not
  queue_.Finish(&ready_);
  EXPECT_EQ(completed(), 1u);
}

}  // namespace
}  // namespace harmonaize::daemon
