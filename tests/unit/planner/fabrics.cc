#include "tests/unit/planner/fabrics.h"

#include <gtest/gtest.h>

#include <utility>

#include "src/topology/fabric/fabric_file.h"

namespace harmonaize {

const std::vector<std::string>& ShippedFabrics() {
  static const std::vector<std::string> names = {"one-rack", "rails", "ring", "three-racks-unequal",
                                                 "two-racks"};
  return names;
}

FabricModel ShippedFabric(const std::string& name) {
  Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return FabricModel(file.ok() ? std::move(file->fabric) : Fabric{});
}

FabricModel FabricOf(const std::string& text) {
  Result<FabricFile> file = ParseFabricFile(text, "fabric.toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return FabricModel(file.ok() ? std::move(file->fabric) : Fabric{});
}

Problem ProblemOn(const FabricModel& model, Collective collective, int ranks) {
  Problem problem{.collective = collective, .host_of_rank = {}};
  for (int host = 0; host < model.hosts(); ++host) {
    problem.host_of_rank.insert(problem.host_of_rank.end(), static_cast<size_t>(ranks), host);
  }
  problem.root = HasRoot(collective) ? 0 : -1;
  problem.in_place = true;
  return problem;
}

Problem AcrossTheRacks(const FabricModel& two_racks) {
  Problem problem = ProblemOn(two_racks, Collective::kAllReduce);
  problem.host_of_rank = {0, 2, 1, 3};
  return problem;
}

}  // namespace harmonaize
