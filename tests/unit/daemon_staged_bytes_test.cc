#include <gtest/gtest.h>

#include <string>

#include "daemon/staged_bytes.h"
#include "src/ipc/session_segment.h"
#include "src/planner/fabric_model.h"
#include "src/topology/fabric_file.h"

namespace harmonaize::daemon {
namespace {

uint64_t StagedOn(const std::string& name, int64_t shared_processors, int64_t workers) {
  Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return 0;
  const FabricModel model(std::move(file->fabric));
  return StagedBytesAcrossHosts(&model, shared_processors, workers);
}

TEST(StagedBytes, RanksCopyAllWhereLinksAreFastAndWorkersHaveNoProcessor) {
  EXPECT_EQ(StagedOn("two-hosts", 2, 2), kCopyWithoutWorkersBytes);
  EXPECT_EQ(StagedOn("two-hosts", 0, 1), kCopyWithoutWorkersBytes);
}

TEST(StagedBytes, WorkersCopyWhereTheyHaveAProcessor) {
  EXPECT_EQ(StagedOn("two-hosts", 0, 16), kCopyAcrossHostsBytes);
  EXPECT_EQ(StagedOn("two-hosts", 8, 8), kCopyAcrossHostsBytes);
}

TEST(StagedBytes, WorkersCopyWhileSlowLinksAreBusy) {
  EXPECT_EQ(StagedOn("two-racks", 2, 2), kCopyAcrossHostsBytes);
  EXPECT_EQ(StagedBytesAcrossHosts(nullptr, 2, 2), kCopyAcrossHostsBytes);
}

}  // namespace
}  // namespace harmonaize::daemon
