#include <gtest/gtest.h>

#include "daemon/staged_bytes.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {
namespace {

TEST(StagedBytes, RanksCopyAllWhereWorkersHaveNoProcessor) {
  EXPECT_EQ(StagedBytesAcrossHosts(2, 2, 2), kCopyWithoutWorkersBytes);
  EXPECT_EQ(StagedBytesAcrossHosts(8, 2, 16), kCopyWithoutWorkersBytes);
  EXPECT_EQ(StagedBytesAcrossHosts(2, 0, 1), kCopyWithoutWorkersBytes);
}

TEST(StagedBytes, WorkersCopyWhereTheyHaveAProcessor) {
  EXPECT_EQ(StagedBytesAcrossHosts(2, 0, 16), kCopyAcrossHostsBytes);
  EXPECT_EQ(StagedBytesAcrossHosts(4, 8, 2), kCopyAcrossHostsBytes);
}

}  // namespace
}  // namespace harmonaize::daemon
