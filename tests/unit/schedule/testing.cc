#include "tests/unit/schedule/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "src/schedule/check/check.h"
#include "src/schedule/ir/step_graph.h"
#include "tests/unit/schedule/interpreter.h"

namespace harmonaize {

std::vector<std::vector<int>> Placements(int hosts) {
  std::vector<std::vector<int>> placements(3);
  for (int host = 0; host < hosts; ++host) {
    placements[0].push_back(host);
    for (int i = 0; i < 1 + host % 3; ++i) placements[1].push_back(host);
    placements[2].push_back(3 + 2 * host);
  }
  std::mt19937 random(static_cast<unsigned>(hosts));
  for (int more = 0; more < hosts / 2 + 1; ++more) {
    placements[2].push_back(3 + 2 * static_cast<int>(random() % static_cast<unsigned>(hosts)));
  }
  std::shuffle(placements[2].begin(), placements[2].end(), random);
  return placements;
}

std::vector<Problem> Problems(Collective collective, const std::vector<int>& host_of_rank,
                              bool in_place_too) {
  const int ranks = static_cast<int>(host_of_rank.size());
  std::set<int> roots = {-1};
  if (HasRoot(collective)) {
    roots = {0, ranks / 3, ranks / 2, ranks - 1};
    for (int root = 0; root < std::min(ranks, 6); ++root) roots.insert(root);
  }
  std::vector<Problem> problems;
  for (const int root : roots) {
    problems.push_back({collective, host_of_rank, root, false});
    if (in_place_too) problems.push_back({collective, host_of_rank, root, true});
  }
  return problems;
}

std::vector<int> SomeOrder(const std::vector<int>& host_of_rank, int seed) {
  const std::set<int> hosts(host_of_rank.begin(), host_of_rank.end());
  std::vector<int> order(hosts.begin(), hosts.end());
  std::mt19937 random(static_cast<unsigned>(seed));
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::vector<std::vector<int>> SomeGroups(const std::vector<int>& host_of_rank, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::vector<int>> groups(1);
  for (const int host : SomeOrder(host_of_rank, seed)) {
    if (!groups.back().empty() && random() % 3 == 0) groups.emplace_back();
    groups.back().push_back(host);
  }
  return groups;
}

namespace {

/// By load: the fewest messages before a send and behind a receive, counted from the steps.
struct Bounds {
  int earliest = std::numeric_limits<int>::max();
  int following = std::numeric_limits<int>::max();
};
using LoadKey = std::tuple<int, int, int>;

int HostOf(const Schedule& schedule, const StepGraph& graph, int step) {
  return schedule.programs[static_cast<size_t>(graph.ProgramOf(step))].host;
}

std::map<LoadKey, Bounds> CountBounds(const Schedule& schedule, const StepGraph& graph) {
  const auto size = static_cast<size_t>(graph.size());
  std::vector<int> came(size, 0);
  std::vector<int> behind(size, 0);
  for (const int step : graph.order()) {
    const int first = step - graph.IndexOf(step);
    int& mine = came[static_cast<size_t>(step)];
    for (const int before : graph.StepOf(step).after) {
      mine = std::max(mine, came[static_cast<size_t>(first + before)]);
    }
    const int sender = graph.SenderOf(step);
    if (sender >= 0) mine = std::max(mine, came[static_cast<size_t>(sender)] + 1);
  }
  for (auto step = graph.order().rbegin(); step != graph.order().rend(); ++step) {
    const int mine = behind[static_cast<size_t>(*step)];
    const int first = *step - graph.IndexOf(*step);
    for (const int before : graph.StepOf(*step).after) {
      int& theirs = behind[static_cast<size_t>(first + before)];
      theirs = std::max(theirs, mine);
    }
    const int sender = graph.SenderOf(*step);
    if (sender < 0) continue;
    behind[static_cast<size_t>(sender)] = std::max(behind[static_cast<size_t>(sender)], mine + 1);
  }
  std::map<LoadKey, Bounds> bounds;
  for (const int step : graph.order()) {
    const int sender = graph.SenderOf(step);
    if (sender < 0) continue;
    const Step& send = graph.StepOf(sender);
    Bounds& one = bounds[{HostOf(schedule, graph, sender), send.peer_host, send.path}];
    one.earliest = std::min(one.earliest, came[static_cast<size_t>(sender)]);
    one.following = std::min(one.following, behind[static_cast<size_t>(step)]);
  }
  return bounds;
}

void ExpectBoundsHold(const Summary& summary, const Schedule& schedule) {
  const Result<StepGraph> graph = StepGraph::Build(schedule);
  ASSERT_TRUE(graph.ok());
  std::map<LoadKey, Bounds> bounds = CountBounds(schedule, *graph);
  for (const Load& load : summary.loads) {
    const Bounds& counted = bounds[{load.from_host, load.to_host, load.path}];
    EXPECT_LE(load.earliest, counted.earliest) << Describe(schedule);
    EXPECT_LE(load.following, counted.following) << Describe(schedule);
    EXPECT_LE(load.earliest, load.latest);
    EXPECT_LT(load.latest + load.following, summary.dependent_messages);
  }
}

}  // namespace

void ExpectSound(const Outline& outline, int runs) {
  const Schedule schedule = outline.Write();
  const Status status = Check(schedule);
  ASSERT_TRUE(status.ok()) << status.ToString() << "\n" << Describe(schedule);
  const auto wrong = RunOften(schedule, runs, 1);
  ASSERT_FALSE(wrong) << *wrong << "\n" << Describe(schedule);
  const Summary summary = outline.Summarize();
  const Summary counted = Summarize(schedule);
  EXPECT_EQ(summary.dependent_messages, counted.dependent_messages) << Describe(schedule);
  EXPECT_EQ(summary.loads, counted.loads) << Describe(schedule);
  EXPECT_EQ(summary.hosts, counted.hosts) << Describe(schedule);
  ExpectBoundsHold(summary, schedule);
  EXPECT_EQ(summary, counted) << Describe(schedule);
  Schedule alone = schedule;
  const int last = outline.placement().hosts() - 1;
  alone.programs[static_cast<size_t>(last)] = outline.Program(last);
  EXPECT_EQ(Describe(alone), Describe(schedule));
}

}  // namespace harmonaize
