// The command that lists checkpoints, of a job on several hosts. A program of its own: the thread
// sanitizer has no commands.

#include <gtest/gtest.h>

#include <cstdlib>

#include "harmonaize.h"
#include "tests/integration/command_line.h"
#include "tests/support/cluster.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/saved_model.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

TEST(CheckpointsOfHosts, AreListedByACommandWhereverTheyAre) {
  setenv("HARMONAIZE_JOB", "train", 1);
  TestCluster cluster(3, Impatient());
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    if (ncclCommInitRank(&comm, 3, id, rank) != ncclSuccess) return 2;
    hzCheckpointer_t saver = nullptr;
    EXPECT_NCCL(hzCheckpointerCreate(comm, nullptr, &saver));
    EXPECT_NCCL(SavedModel(rank, 3, 20).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, 20, hzAtPeer, 60'000));
    const Ended listed = RunCommand({"checkpoints", "held", "train"}, getenv("HARMONAIZE_SOCKET"));
    EXPECT_EQ(listed.status, 0) << listed.error;
    // Each host has its own rank's part and a copy of another one's.
    EXPECT_EQ(LinesLike(listed.output, "20 +whole .* 3 +2 +1 +[0-9.]+ KiB"), 1) << listed.output;
    EXPECT_EQ(CountRanks(comm), 3) << "all have looked before the memory is given back";
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

}  // namespace
}  // namespace harmonaize::testing
