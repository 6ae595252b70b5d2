#include "tests/unit/schedule_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "src/schedule/check.h"
#include "tests/unit/schedule_interpreter.h"

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
  EXPECT_EQ(summary, counted) << Describe(schedule);
  Schedule alone = schedule;
  const int last = outline.placement().hosts() - 1;
  alone.programs[static_cast<size_t>(last)] = outline.Program(last);
  EXPECT_EQ(Describe(alone), Describe(schedule));
}

}  // namespace harmonaize
