#include "perf/fabric/placement.h"

#include <gtest/gtest.h>

#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::fabric {
namespace {

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() {
    Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/two-racks.toml");
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (file.ok()) fabric_ = file->fabric;
  }
  std::vector<int> Place(const std::vector<std::string>& hosts, int ranks) {
    const Result<std::vector<int>> places = PlaceRanks(fabric_, hosts, ranks);
    EXPECT_TRUE(places.ok()) << places.status().message();
    return places.ok() ? *places : std::vector<int>();
  }
  std::string ErrorOf(const std::vector<std::string>& hosts, int ranks) {
    return PlaceRanks(fabric_, hosts, ranks).status().message();
  }
  Fabric fabric_;
};

TEST_F(PlacementTest, RanksGoToHostsInTurn) {
  EXPECT_EQ(Place({}, 6), (std::vector<int>{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(Place({}, 0), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(Place({"host2", "host0"}, 3), (std::vector<int>{2, 0, 2}));
}

TEST_F(PlacementTest, OrAsManyAsAHostIsGiven) {
  EXPECT_EQ(Place({"host2:2", "host0:1"}, 0), (std::vector<int>{2, 2, 0}));
  EXPECT_EQ(Place({"host2:2", "host0:1"}, 3), (std::vector<int>{2, 2, 0}));
}

TEST_F(PlacementTest, SaysWhatDoesNotAddUp) {
  EXPECT_EQ(ErrorOf({"host9"}, 1), "the fabric has no host 'host9', did you mean 'host0'?");
  EXPECT_EQ(ErrorOf({"leaf0"}, 1), "the fabric has no host 'leaf0'");
  EXPECT_EQ(ErrorOf({"host0:2"}, 3), "--hosts places 2 ranks, and -n asks for 3");
  EXPECT_EQ(ErrorOf({"host0:0"}, 0), "'host0:0': a host's number of ranks is from 1 to 1024");
  EXPECT_EQ(ErrorOf({"host0:x"}, 0), "'host0:x': a host's number of ranks is from 1 to 1024");
  EXPECT_NE(ErrorOf({"host0:1", "host1"}, 0).find("or none has"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::fabric
