#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "src/schedule/algorithms/all_to_all.h"
#include "src/schedule/algorithms/circulant.h"
#include "src/schedule/algorithms/double_binary_tree.h"
#include "src/schedule/algorithms/halving_doubling.h"
#include "src/schedule/algorithms/hierarchical.h"
#include "src/schedule/algorithms/rank_order.h"
#include "src/schedule/algorithms/recursive_doubling.h"
#include "src/schedule/algorithms/ring.h"
#include "src/schedule/algorithms/rooted_tree.h"
#include "src/schedule/algorithms/shared_tree.h"
#include "src/schedule/check/check.h"
#include "tests/support/sanitized.h"
#include "tests/unit/schedule/testing.h"

namespace harmonaize {
namespace {

// What the algorithms are chosen for: how much goes where, and in how many turns.

std::vector<int> OneEach(int hosts) {
  std::vector<int> host_of_rank(static_cast<size_t>(hosts));
  std::iota(host_of_rank.begin(), host_of_rank.end(), 0);
  return host_of_rank;
}

Summary SummaryOf(const OutlineResult& outline) {
  EXPECT_TRUE(outline.ok()) << outline.status().ToString();
  return outline.ok() ? (*outline)->Summarize() : Summary{};
}

uint64_t MostSent(const Summary& summary) {
  uint64_t most = 0;
  for (const HostTraffic& host : summary.hosts) most = std::max(most, host.sent);
  return most;
}
uint64_t MostReceived(const Summary& summary) {
  uint64_t most = 0;
  for (const HostTraffic& host : summary.hosts) most = std::max(most, host.received);
  return most;
}

TEST(TrafficTest, RingsSendTheLeastAlongOneWay) {
  const Problem problem{Collective::kAllReduce, OneEach(7), -1, true};
  const std::vector<int> order = {3, 1, 4, 0, 5, 2, 6};
  const Summary summary = SummaryOf(MakeRings(problem, {{order}}, 2));
  EXPECT_EQ(summary.pieces, 14);
  EXPECT_EQ(summary.dependent_messages, 12);
  ASSERT_EQ(summary.loads.size(), 7u);
  for (const Load& load : summary.loads) {
    EXPECT_EQ(load.blocks, 24u);
    const auto at = std::find(order.begin(), order.end(), load.from_host) - order.begin();
    EXPECT_EQ(load.to_host, order[static_cast<size_t>((at + 1) % 7)]);
  }
}

TEST(TrafficTest, RingsShareTheDataOverTheirPaths) {
  const Problem problem{Collective::kAllGather, OneEach(4), -1, true};
  const OutlineResult outline = MakeRings(
      problem, {{{0, 1, 2, 3}, {0, 0, 0, 0}}, {{0, 1, 2, 3}, {1, 2, 1, 2}}, {{3, 2, 1, 0}, {}}}, 1);
  ASSERT_TRUE(outline.ok()) << outline.status().ToString();
  ExpectSound(**outline, 20);
  const Summary summary = (*outline)->Summarize();
  EXPECT_EQ(summary.loads.size(), 12u);
  EXPECT_EQ(summary.loads[0], (Load{0, 1, 0, 3}));
  EXPECT_EQ(summary.loads[1], (Load{0, 1, 1, 3}));
  EXPECT_EQ(summary.loads[2], (Load{0, 3, -1, 3}));
}

TEST(TrafficTest, BadRingsAreNamed) {
  const Problem problem{Collective::kAllGather, OneEach(3), -1, true};
  const auto message = [&](const std::vector<Ring>& rings) {
    return MakeRings(problem, rings, 1).status().message();
  };
  EXPECT_NE(message({{{0, 1}}}).find("lacks host 2"), std::string::npos);
  EXPECT_NE(message({{{0, 1, 7}}}).find("host 7, which has no rank"), std::string::npos);
  EXPECT_NE(message({{{0, 1, 1}}}).find("host 1 twice"), std::string::npos);
  EXPECT_NE(message({{{0, 1, 2}, {1}}}).find("has 1 paths"), std::string::npos);
  EXPECT_NE(message({}).find("no ring"), std::string::npos);
}

TEST(TrafficTest, HalvingAndCirculantTakeLogarithmicallyManyTurns) {
  const Problem problem{Collective::kAllReduce, OneEach(16), -1, false};
  const Summary halving = SummaryOf(MakeHalvingDoubling(problem, {}, 1));
  EXPECT_EQ(halving.dependent_messages, 8);
  EXPECT_EQ(MostSent(halving), 30u);
  EXPECT_EQ(halving.loads.size(), 16u * 4u);
  for (const int hosts : {5, 12, 13}) {
    const Problem odd{Collective::kAllReduce, OneEach(hosts), -1, false};
    const Summary circulant = SummaryOf(MakeCirculant(odd, {}, 1));
    EXPECT_LE(circulant.dependent_messages, hosts == 5 ? 6 : 8);
    EXPECT_EQ(MostSent(circulant), 2u * (static_cast<unsigned>(hosts) - 1));
    EXPECT_EQ(MostReceived(circulant), 2u * (static_cast<unsigned>(hosts) - 1));
  }
}

TEST(TrafficTest, RecursiveDoublingTakesHalfTheTurnsOfATree) {
  for (const int hosts : {2, 4, 5, 8, 11}) {
    const Problem problem{Collective::kAllReduce, OneEach(hosts), -1, true};
    const Summary summary = SummaryOf(MakeRecursiveDoubling(problem, {}, 1));
    const int turns = std::bit_width(static_cast<unsigned>(hosts)) - 1;
    const bool whole = std::has_single_bit(static_cast<unsigned>(hosts));
    EXPECT_EQ(summary.dependent_messages, turns + (whole ? 0 : 1)) << hosts;
    EXPECT_EQ(MostSent(summary), static_cast<unsigned>(turns + (whole ? 0 : 1))) << hosts;
  }
}

TEST(TrafficTest, DoubleBinaryTreesLoadEveryHostOnce) {
  for (int hosts = 2; hosts <= 40; ++hosts) {
    const Problem broadcast{Collective::kBroadcast, OneEach(hosts), hosts / 2, false};
    const Summary summary = SummaryOf(MakeDoubleBinaryTree(broadcast, {}, 8));
    EXPECT_EQ(summary.pieces, 16);
    EXPECT_LE(MostSent(summary), 16u) << hosts;
    EXPECT_EQ(MostReceived(summary), 16u);
    // One level for the root, the others in a balanced tree.
    int levels = 1;
    while ((1 << levels) <= hosts - 1) ++levels;
    EXPECT_LE(summary.dependent_messages, levels + 1) << hosts;
    const Problem reduce{Collective::kAllReduce, OneEach(hosts), -1, false};
    const Summary both = SummaryOf(MakeDoubleBinaryTree(reduce, {}, 8));
    EXPECT_LE(MostSent(both), 32u) << hosts;
  }
}

TEST(TrafficTest, ChainsAndTreesHaveTheirShape) {
  const Problem broadcast{Collective::kBroadcast, OneEach(16), 5, false};
  const auto turns = [&](TreeShape shape) {
    return SummaryOf(MakeRootedTrees(broadcast, shape, {}, 4)).dependent_messages;
  };
  EXPECT_EQ(turns(TreeShape::kChain), 15);
  EXPECT_EQ(turns(TreeShape::kBinary), 4);
  EXPECT_EQ(turns(TreeShape::kBinomial), 4);
  EXPECT_EQ(turns(TreeShape::kStar), 1);
}

TEST(TrafficTest, SharedTreesSendOneMessageEachWay) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    for (const TreeShape shape : {TreeShape::kStar, TreeShape::kBinomial, TreeShape::kChain}) {
      for (int hosts = 2; hosts <= 9; ++hosts) {
        const Problem problem{collective, OneEach(hosts), -1, true};
        const Summary summary = SummaryOf(MakeSharedTree(problem, shape, {}, 1));
        EXPECT_EQ(summary.loads.size(), 2u * (static_cast<unsigned>(hosts) - 1));
        for (const Load& load : summary.loads) {
          EXPECT_EQ(load.earliest, load.latest) << load.from_host << " to " << load.to_host;
        }
        if (shape == TreeShape::kStar) {
          EXPECT_EQ(summary.dependent_messages, std::min(hosts - 1, 2));
        }
      }
    }
  }
}

// Not only in one turn: what goes to a neighbour waits for the last block that does.
TEST(TrafficTest, SharedTreesPassOnWhatTheyHaveGathered) {
  const Problem problem{Collective::kAllGather, {0, 0, 1, 2, 2, 3}, -1, true};
  const OutlineResult outline = MakeSharedTree(problem, TreeShape::kStar, {}, 1);
  ASSERT_TRUE(outline.ok()) << outline.status().ToString();
  const HostProgram root = (*outline)->Program(0);
  for (const Step& step : root.steps) {
    if (step.kind != StepKind::kSend) continue;
    std::set<int> heard;
    for (const int before : step.after) {
      heard.insert(root.steps[static_cast<size_t>(before)].peer_host);
    }
    for (const int other : {1, 2, 3}) {
      EXPECT_EQ(heard.contains(other), other != step.peer_host) << Describe(step);
    }
  }
}

uint64_t Crossing(const Summary& summary, int first_of_second) {
  uint64_t crossing = 0;
  for (const Load& load : summary.loads) {
    if (load.from_host < first_of_second && load.to_host >= first_of_second) {
      crossing += load.blocks;
    }
  }
  return crossing;
}

TEST(TrafficTest, HierarchiesCrossGroupsOnceForEachPhase) {
  // Two groups of four: of every piece, one partial result and one result cross in all.
  const Problem problem{Collective::kAllReduce, OneEach(8), -1, true};
  const Hierarchy hierarchy{{{0, 1, 2, 3}, {4, 5, 6, 7}}};
  const Summary summary = SummaryOf(MakeHierarchical(problem, hierarchy, 1));
  EXPECT_EQ(summary.pieces, 8);
  EXPECT_EQ(Crossing(summary, 4), 8u);
  // A ring that alternates between the groups crosses with everything.
  const Summary ring = SummaryOf(MakeRings(problem, {{{0, 4, 1, 5, 2, 6, 3, 7}}}, 1));
  EXPECT_EQ(Crossing(ring, 4), 4u * 14u);
  // The exchange is spread over all hosts of a group.
  for (const Load& load : summary.loads) {
    if (load.from_host / 4 != load.to_host / 4) {
      EXPECT_EQ(load.from_host % 4, load.to_host % 4);
      EXPECT_EQ(load.blocks, 2u);
    }
  }
}

TEST(TrafficTest, HierarchiesTakeShapes) {
  for (const TreeShape within : {TreeShape::kChain, TreeShape::kBinomial, TreeShape::kStar}) {
    for (const TreeShape across : {TreeShape::kChain, TreeShape::kBinary, TreeShape::kStar}) {
      const Hierarchy hierarchy{{{0, 3}, {1, 2, 4, 5}, {6}, {7, 8, 9}}, within, across};
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kReduceScatter, Collective::kBroadcast}) {
        const int root = HasRoot(collective) ? 4 : -1;
        const OutlineResult outline =
            MakeHierarchical({collective, OneEach(10), root, true}, hierarchy, 1);
        ASSERT_TRUE(outline.ok()) << outline.status().ToString();
        ExpectSound(**outline, 3);
      }
    }
  }
}

TEST(TrafficTest, AllToAllCrowdsNobody) {
  for (const bool in_place : {false, true}) {
    const Problem problem{Collective::kAllToAll, OneEach(7), -1, in_place};
    const OutlineResult outline = MakeDirectAllToAll(problem, 1);
    ASSERT_TRUE(outline.ok());
    const Schedule schedule = (*outline)->Write();
    // The n-th messages of all hosts go to different ones, where all have one in every turn.
    if (in_place) continue;
    for (size_t turn = 0; turn < 6; ++turn) {
      std::vector<int> receivers;
      for (const HostProgram& program : schedule.programs) {
        size_t sent = 0;
        for (const Step& step : program.steps) {
          if (step.kind == StepKind::kSend && sent++ == turn) receivers.push_back(step.peer_host);
        }
      }
      std::sort(receivers.begin(), receivers.end());
      EXPECT_EQ(receivers, OneEach(7));
    }
  }
}

TEST(TrafficTest, InPlaceAllToAllStagesLittle) {
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < 32; ++rank) host_of_rank.push_back(rank / 2);
  const OutlineResult outline =
      MakeDirectAllToAll({Collective::kAllToAll, host_of_rank, -1, true}, 1);
  ASSERT_TRUE(outline.ok());
  for (int host = 0; host < 16; ++host) {
    EXPECT_LE((*outline)->Program(host).scratch_blocks, 12);  // 3 turns of 2 * 2 blocks
  }
}

TEST(TrafficTest, TwoLevelAllToAllKeepsToItsNumber) {
  const Problem problem{Collective::kAllToAll, OneEach(12), -1, false};
  const Summary summary =
      SummaryOf(MakeTwoLevelAllToAll(problem, {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}, 1));
  for (const Load& load : summary.loads) {
    if (load.from_host / 4 != load.to_host / 4) {
      EXPECT_EQ(load.from_host % 4, load.to_host % 4);
      EXPECT_EQ(load.blocks, 4u);
    }
  }
  EXPECT_EQ(summary.dependent_messages, 2);
}

TEST(TrafficTest, RankOrderChainsLoadEachLinkOnce) {
  const Problem problem{Collective::kAllReduce, {0, 0, 1, 1, 2, 2, 3, 3}, -1, true};
  const Summary chain = SummaryOf(MakeRankOrderChain(problem, 10));
  EXPECT_EQ(MostSent(chain), 20u);
  for (const Load& load : chain.loads) EXPECT_EQ(load.blocks, 10u);
  EXPECT_EQ(chain.loads.size(), 6u);
  // Dealt round robin, a host has two runs.
  const Problem dealt{Collective::kAllReduce, {0, 1, 2, 3, 0, 1, 2, 3}, -1, true};
  const Summary twice = SummaryOf(MakeRankOrderChain(dealt, 10));
  EXPECT_EQ(twice.loads[0].blocks, 20u);
  const Summary exchange = SummaryOf(MakeRankOrderExchange(dealt, 1));
  EXPECT_EQ(exchange.dependent_messages, 2);
  EXPECT_EQ(MostSent(exchange), 3u * 2 + 3u);
}

TEST(TrafficTest, RingReduceScattersReuseScratch) {
  const OutlineResult outline =
      MakeRings({Collective::kReduceScatter, OneEach(40), -1, true}, {{}}, 1);
  ASSERT_TRUE(outline.ok());
  EXPECT_LE((*outline)->Program(7).scratch_blocks, 4);
}

TEST(SizeTest, AThousandHostsOfEightRanks) {
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < (kSanitized ? 1024 : 8192); ++rank) host_of_rank.push_back(rank / 8);
  const auto hosts = static_cast<uint64_t>(host_of_rank.size() / 8);
  const OutlineResult outline =
      MakeRings({Collective::kAllGather, host_of_rank, -1, true}, {{}}, 1);
  ASSERT_TRUE(outline.ok());
  const HostProgram program = (*outline)->Program(17);
  EXPECT_EQ(program.steps.size(), 8 + 2 * 8 * (hosts - 1));
  const Summary summary = (*outline)->Summarize();
  EXPECT_EQ(summary.loads.size(), hosts);
  EXPECT_EQ(summary.hosts[3].sent, 8 * (hosts - 1));
}

}  // namespace
}  // namespace harmonaize
