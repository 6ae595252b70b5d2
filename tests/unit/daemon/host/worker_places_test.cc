#include "daemon/host/worker_places.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace harmonaize::daemon {
namespace {

Host Synthetic(const std::string& description) {
  Result<Host> host = HostFromSynthetic(description);
  EXPECT_TRUE(host.ok()) << host.status().ToString();
  return host.ok() ? std::move(*host) : Host{};
}

constexpr const char* kTwoNodes = "NUMANode:2 Core:4 PU:2";  // 16 processors, siblings in a row

TEST(WorkerPlaces, OneNodeIsLeftToTheKernel) {
  const Host host = Synthetic("NUMANode:1 Core:4 PU:1");
  for (const WorkerPlace& place : PlaceWorkers(host, 4, kPlaceByHost)) {
    EXPECT_TRUE(place.processors.empty());
    EXPECT_EQ(place.node, -1);
  }
}

TEST(WorkerPlaces, TwoNodesTakeTurns) {
  const Host host = Synthetic(kTwoNodes);
  const std::vector<WorkerPlace> places = PlaceWorkers(host, 5, kPlaceByHost);
  ASSERT_EQ(places.size(), 5u);
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(places[i].node, static_cast<int>(i % 2));
    EXPECT_EQ(places[i].processors, host.nodes[i % 2].processors);
  }
}

TEST(WorkerPlaces, FreelyMeansFreely) {
  for (const WorkerPlace& place : PlaceWorkers(Synthetic(kTwoNodes), 3, kPlaceFreely)) {
    EXPECT_TRUE(place.processors.empty());
  }
}

TEST(WorkerPlaces, CoresBeforeTheirSecondThreads) {
  const Host host = Synthetic(kTwoNodes);
  const std::vector<WorkerPlace> places = PlaceWorkers(host, 16, kPlaceOnProcessors);
  std::set<int> processors;
  std::set<int> cores;
  for (size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(places[i].processors.size(), 1u);
    const int number = places[i].processors.front();
    processors.insert(number);
    EXPECT_EQ(host.NodeOfProcessor(number), places[i].node);
    if (i < 8) cores.insert(host.processors[static_cast<size_t>(number)].core);
  }
  EXPECT_EQ(processors.size(), 16u);
  EXPECT_EQ(cores.size(), 8u);
}

TEST(WorkerPlaces, NodesGetTheirShare) {
  // As many hosts leave it to a job: three processors of one node and one of another.
  Host host = Synthetic("NUMANode:2 Core:3 PU:1");
  host.processors.resize(4);
  host.nodes[1].processors.resize(1);
  std::map<int, int> workers;
  for (const WorkerPlace& place : PlaceWorkers(host, 8, kPlaceOnNodes)) ++workers[place.node];
  EXPECT_EQ(workers[0], 6);
  EXPECT_EQ(workers[1], 2);
}

TEST(WorkerPlaces, MemoryWithoutProcessorsGetsNone) {
  Host host = Synthetic("NUMANode:4 Core:1 PU:1");
  host.processors.pop_back();
  host.nodes[3].processors.clear();
  for (const WorkerPlace& place : PlaceWorkers(host, 12, kPlaceByHost)) EXPECT_NE(place.node, 3);
}

TEST(WorkerPlaces, MoreWorkersThanProcessorsShareThem) {
  const std::vector<WorkerPlace> places =
      PlaceWorkers(Synthetic("NUMANode:4 Core:1 PU:1"), 6, kPlaceOnProcessors);
  EXPECT_EQ(places[4].processors, places[0].processors);
  EXPECT_EQ(places[3].node, 3);
}

TEST(WorkerPlaces, TheConfigurationNamesProcessors) {
  const std::vector<WorkerPlace> places = PlaceWorkersOn(Synthetic(kTwoNodes), 3, {9, 0});
  EXPECT_EQ(places[0].processors, std::vector<int>{9});
  EXPECT_EQ(places[0].node, 1);
  EXPECT_EQ(places[1].node, 0);
  EXPECT_EQ(places[2].processors, std::vector<int>{9});
}

TEST(WorkerPlaces, AProcessorThatIsNotThereIsNearNothing) {
  EXPECT_EQ(PlaceWorkersOn(Synthetic(kTwoNodes), 1, {99})[0].node, -1);
}

}  // namespace
}  // namespace harmonaize::daemon
