#include "src/schedule/algorithms/algorithms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/schedule/check/check.h"
#include "tests/support/sanitized.h"
#include "tests/unit/schedule/testing.h"

namespace harmonaize {
namespace {

// Every line of the table, for every collective that it names: 1 to 16 hosts, ranks dealt in
// several ways, roots, in place and out of place, one and several pieces.

struct Case {
  const Algorithm* algorithm = nullptr;
  Collective collective = Collective::kAllReduce;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : Algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      cases.push_back({&algorithm, collective});
    }
  }
  return cases;
}

class AlgorithmTest : public testing::TestWithParam<Case> {
 protected:
  const Algorithm& algorithm() const { return *GetParam().algorithm; }

  OutlineResult Make(const Problem& problem, int pieces, int seed) const {
    AlgorithmOptions options{.pieces = pieces};
    if (seed > 0) options.order = SomeOrder(problem.host_of_rank, seed);
    if (algorithm().needs_groups) options.groups = SomeGroups(problem.host_of_rank, seed);
    CapacityGraph fabric;  // one switch; hosts and links in the order of the ranks
    if (algorithm().needs_fabric) {
      fabric.AddSwitch();
      for (const int host :
           std::set<int>(problem.host_of_rank.begin(), problem.host_of_rank.end())) {
        fabric.AddLink(fabric.AddHost(host), 0, 1 + host % 2);
      }
      options.fabric = &fabric;
      options.most_trees = 16;
    }
    return algorithm().make(problem, options);
  }

  void ExpectAllSound(const std::vector<int>& host_of_rank, int pieces, int seed, int runs) const {
    for (const Problem& problem :
         Problems(GetParam().collective, host_of_rank, algorithm().in_place)) {
      const OutlineResult outline = Make(problem, pieces, seed);
      ASSERT_TRUE(outline.ok()) << outline.status().ToString();
      ExpectSound(**outline, runs);
      if (HasFatalFailure()) return;
    }
  }
};

int MostHosts(const Algorithm& algorithm) {
  return algorithm.name == "one-host" ? 1 : 16;
}

TEST_P(AlgorithmTest, IsSoundOnUpToSixteenHosts) {
  for (int hosts = 1; hosts <= MostHosts(algorithm()); ++hosts) {
    if (kSanitized && hosts > 6 && hosts != 11) continue;
    const std::vector<std::vector<int>> placements = Placements(hosts);
    for (size_t i = 0; i < placements.size(); ++i) {
      const int pieces = 1 + (hosts + static_cast<int>(i)) % 3;
      ExpectAllSound(placements[i], hosts > 9 ? 1 : pieces, static_cast<int>(i), hosts > 6 ? 1 : 4);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AlgorithmTest, ReducesInRankOrderIfItSaysSo) {
  if (!Reduces(GetParam().collective)) return;
  for (int hosts = 1; hosts <= std::min(5, MostHosts(algorithm())); ++hosts) {
    for (const std::vector<int>& placement : Placements(hosts)) {
      const OutlineResult outline = Make(
          {GetParam().collective, placement, HasRoot(GetParam().collective) ? 0 : -1, true}, 2, 0);
      ASSERT_TRUE(outline.ok()) << outline.status().ToString();
      const bool in_order = ReducesInRankOrder((*outline)->Write());
      if (algorithm().in_rank_order) {
        EXPECT_TRUE(in_order) << Describe((*outline)->Write());
      }
    }
  }
}

TEST_P(AlgorithmTest, RefusesWhatItCannotDo) {
  const int root = HasRoot(GetParam().collective) ? 0 : -1;
  const Problem problem{GetParam().collective, {0, 1, 1}, root, false};
  AlgorithmOptions options{.pieces = 0, .groups = {{0, 1}}};
  const CapacityGraph fabric{{-1, 0, 1}, {{0, 1, 1}, {1, 0, 1}, {0, 2, 1}, {2, 0, 1}}};
  if (algorithm().needs_fabric) {
    EXPECT_NE(algorithm().make(problem, options).status().message().find("the fabric"),
              std::string::npos);
    options.fabric = &fabric;
  }
  if (algorithm().name == "one-host") {
    EXPECT_FALSE(algorithm().make(problem, options).ok());
    return;
  }
  EXPECT_NE(algorithm().make(problem, options).status().message().find("0 pieces"),
            std::string::npos);
  options.pieces = 1;
  EXPECT_TRUE(algorithm().make(problem, options).ok());
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (algorithm().CarriesOut(collective)) continue;
    const Problem other{collective, {0, 1, 1}, HasRoot(collective) ? 0 : -1, false};
    EXPECT_EQ(algorithm().make(other, options).status().code(), Code::kInvalidArgument) << i;
  }
  Problem bad = problem;
  bad.root = root == -1 ? 1 : 3;
  EXPECT_NE(algorithm().make(bad, options).status().message().find("root"), std::string::npos);
  bad = problem;
  bad.host_of_rank[1] = -2;
  EXPECT_NE(algorithm().make(bad, options).status().message().find("rank 1 is on host -2"),
            std::string::npos);
  bad.host_of_rank.clear();
  EXPECT_FALSE(algorithm().make(bad, options).ok());
  if (!algorithm().needs_groups) return;
  options.groups = {{0}};
  EXPECT_NE(algorithm().make(problem, options).status().message().find("lacks host 1"),
            std::string::npos);
  options.groups = {{0, 1}, {}};
  EXPECT_NE(algorithm().make(problem, options).status().message().find("empty"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmTest, testing::ValuesIn(AllCases()), [](const auto& test) {
  std::string name;
  for (const char c : test.param.algorithm->name) {
    if (c != '-') name += c;
  }
  return name + "_" + std::string(CollectiveName(test.param.collective));
});

TEST(AlgorithmTableTest, NamesAreFound) {
  std::set<std::string_view> names;
  for (const Algorithm& algorithm : Algorithms()) {
    EXPECT_EQ(FindAlgorithm(algorithm.name), &algorithm);
    EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name;
  }
  EXPECT_EQ(FindAlgorithm("no-such-algorithm"), nullptr);
}

TEST(AlgorithmTableTest, EveryCollectiveHasOneForSeveralHosts) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (IsPointToPoint(collective)) continue;
    bool found = false;
    bool in_order = !Reduces(collective);
    for (const Algorithm& algorithm : Algorithms()) {
      if (algorithm.name == "one-host" || !algorithm.CarriesOut(collective)) continue;
      found = true;
      in_order = in_order || algorithm.in_rank_order;
    }
    EXPECT_TRUE(found && in_order) << CollectiveName(collective);
  }
}

}  // namespace
}  // namespace harmonaize
