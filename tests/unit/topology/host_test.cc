#include "src/topology/host/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "src/base/processors.h"

namespace harmonaize {
namespace {

Host Synthetic(const std::string& description) {
  Result<Host> host = HostFromSynthetic(description);
  EXPECT_TRUE(host.ok()) << host.status().ToString();
  return host.ok() ? std::move(*host) : Host{};
}

TEST(Host, OneNode) {
  const Host host =
      Synthetic("NUMANode:1(memory=8GiB) L3:1(size=16MiB) L2:4(size=1MiB) Core:1 PU:2");
  ASSERT_EQ(host.processors.size(), 8u);
  EXPECT_EQ(host.cores, 4);
  EXPECT_EQ(host.processors[0].core, host.processors[1].core);
  EXPECT_NE(host.processors[1].core, host.processors[2].core);
  EXPECT_EQ(host.core_cache_bytes, size_t{1} << 20);
  EXPECT_EQ(host.last_level_cache_bytes, size_t{16} << 20);
  EXPECT_EQ(host.last_level_caches, 1);
  ASSERT_EQ(host.nodes.size(), 1u);
  EXPECT_EQ(host.nodes[0].memory_bytes, uint64_t{8} << 30);
  EXPECT_EQ(host.nodes[0].processors.size(), 8u);
}

TEST(Host, TwoNodesWithHyperthreadsNumberedFarApart) {
  const Host host = Synthetic(
      "Package:2 [NUMANode(memory=64GiB)] L3:2(size=32MiB) L2:4(size=1MiB) Core:1 "
      "PU:2(indexes=2*16)");
  ASSERT_EQ(host.processors.size(), 32u);
  EXPECT_EQ(host.cores, 16);
  EXPECT_EQ(host.last_level_caches, 4);
  ASSERT_EQ(host.nodes.size(), 2u);
  // The siblings of 0 to 15 are 16 to 31; the first package has the first eight of each.
  EXPECT_EQ(host.nodes[0].processors,
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(host.processors[3].core, host.processors[19].core);
  EXPECT_EQ(host.NodeOfProcessor(7), 0);
  EXPECT_EQ(host.NodeOfProcessor(8), 1);
  EXPECT_EQ(host.NodeOfProcessor(24), 1);
  EXPECT_EQ(host.NodeOfProcessor(32), -1);
  EXPECT_EQ(host.NodesWithProcessors(), (std::vector<int>{0, 1}));
}

TEST(Host, FourNodesNumberedOutOfOrder) {
  const Host host = Synthetic("Package:2 Group:2 [NUMANode(indexes=2,0,3,1)] Core:2 PU:1");
  ASSERT_EQ(host.nodes.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(host.nodes[i].number, static_cast<int>(i));
    EXPECT_EQ(host.IndexOfNode(static_cast<int>(i)), static_cast<int>(i));
  }
  EXPECT_EQ(host.NodeOfProcessor(0), 2);
  EXPECT_EQ(host.NodeOfProcessor(2), 0);
  EXPECT_EQ(host.NodeOfProcessor(4), 3);
  EXPECT_EQ(host.NodeOfProcessor(6), 1);
  EXPECT_EQ(host.IndexOfNode(4), -1);
}

TEST(Host, SecondLevelCacheIsSharedOut) {
  const Host host = Synthetic("NUMANode:1 L3:1(size=24MiB) L2:2(size=4MiB) Core:4 PU:1");
  EXPECT_EQ(host.core_cache_bytes, size_t{1} << 20);
}

TEST(Host, WithoutCachesHasTheUsualOnes) {
  const Host host = Synthetic("NUMANode:1 Core:2 PU:1");
  EXPECT_EQ(host.core_cache_bytes, Host{}.core_cache_bytes);
  EXPECT_EQ(host.last_level_cache_bytes, Host{}.last_level_cache_bytes);
}

TEST(Host, RefusesNonsense) {
  EXPECT_EQ(HostFromSynthetic("Teapot:3").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(HostFromXml("<teapot/>").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(HostFromXml("").status().code(), Code::kInvalidArgument);
}

// As lstopo writes it: two nodes with firmware's distances, and a third one without processors.
constexpr const char* kThreeNodes = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3"
         nodeset="0x7" complete_nodeset="0x7" allowed_nodeset="0x7" gp_index="1">
  <object type="NUMANode" os_index="2" cpuset="0x0" complete_cpuset="0x0" nodeset="0x4"
          complete_nodeset="0x4" gp_index="20" local_memory="4096000"/>
  <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
          complete_nodeset="0x1" gp_index="2">
   <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
           complete_nodeset="0x1" gp_index="3" local_memory="8192000"/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
           complete_nodeset="0x1" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
            complete_nodeset="0x1" gp_index="5"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2"
          complete_nodeset="0x2" gp_index="6">
   <object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2"
           complete_nodeset="0x2" gp_index="7" local_memory="8192000"/>
   <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2"
           complete_nodeset="0x2" gp_index="8">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2"
            complete_nodeset="0x2" gp_index="9"/>
   </object>
  </object>
 </object>
 <distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os">
  <indexes length="6">0 1 2 </indexes>
  <u64values length="27">10 21 14 21 10 31 14 31 10 </u64values>
 </distances2>
</topology>
)";

TEST(Host, ReadsXmlWithDistancesAndMemoryWithoutProcessors) {
  const Result<Host> host = HostFromXml(kThreeNodes);
  ASSERT_TRUE(host.ok()) << host.status().ToString();
  ASSERT_EQ(host->nodes.size(), 3u);
  EXPECT_EQ(host->nodes[0].memory_bytes, 8192000u);
  EXPECT_EQ(host->nodes[2].memory_bytes, 4096000u);
  EXPECT_TRUE(host->nodes[2].processors.empty());
  EXPECT_EQ(host->NodesWithProcessors(), (std::vector<int>{0, 1}));
  const std::vector<std::vector<uint64_t>> expected = {{10, 21, 14}, {21, 10, 31}, {14, 31, 10}};
  EXPECT_EQ(host->node_distances, expected);
}

TEST(Host, ThisHostIsWhatTheProcessMayUse) {
  const Result<Host> host = DetectHost();
  ASSERT_TRUE(host.ok()) << host.status().ToString();
  std::vector<int> numbers;
  for (const HostProcessor& processor : host->processors) numbers.push_back(processor.number);
  EXPECT_EQ(numbers, UsableProcessors());
  EXPECT_GE(host->cores, 1);
  uint64_t memory = 0;
  for (const HostNode& node : host->nodes) memory += node.memory_bytes;
  EXPECT_GT(memory, 0u);
}

/// In a process confined to `processor`: 0 when the host is seen as that one processor, and the
/// affinity is as it was.
int LookFrom(int processor) {
  const Result<Host> host = DetectHost();
  if (!host.ok()) return 11;
  if (host->processors.size() != 1 || host->processors[0].number != processor) return 12;
  if (host->cores != 1 || host->processors[0].node < 0) return 13;
  return UsableProcessors() == std::vector<int>{processor} ? 0 : 14;
}

TEST(Host, RespectsTheAffinityAndLeavesItAlone) {
  const std::vector<int> all = UsableProcessors();
  if (all.size() < 2) GTEST_SKIP() << "one processor only";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(all.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  // A process counts as free to run wherever one of its threads may: a child has this one only, and
  // what a sanitizer starts from it.
  const pid_t child = fork();
  if (child == 0) _exit(LookFrom(all.back()));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_GE(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace harmonaize
