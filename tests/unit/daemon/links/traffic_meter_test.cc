// What rails have carried between two looks at their counts.

#include "daemon/links/traffic_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace harmonaize::daemon {
namespace {

transport::LinkTraffic OneRail(uint64_t sent, double busy, double arrival_queue = -1) {
  transport::LinkTraffic link{.peer = 7, .remote = {}, .rails = {}};
  link.rails.push_back({.sent_bytes = sent, .busy_seconds = busy});
  link.rails.back().arrival_queue_seconds = arrival_queue;
  return link;
}

TEST(TrafficMeter, TellsWhatHasGoneSinceTheLastLook) {
  TrafficMeter meter;
  EXPECT_TRUE(meter.Look({OneRail(1000, 1)}, 10, 1).empty());
  const auto flows = meter.Look({OneRail(51000, 1.05, 2e-3)}, 10.1, 1);
  ASSERT_EQ(flows.size(), 1u);
  EXPECT_EQ(flows[0].peer, 7u);
  EXPECT_NEAR(flows[0].bytes_per_second, 500e3, 1);
  EXPECT_NEAR(flows[0].busy, 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(flows[0].arrival_queue_seconds, 2e-3);
}

TEST(TrafficMeter, LeavesOutWhatSaysNothing) {
  TrafficMeter meter;
  meter.Look({OneRail(1000, 1)}, 10, 1);
  EXPECT_TRUE(meter.Look({OneRail(1000, 1)}, 10.1, 1).empty());  // idle
  EXPECT_TRUE(meter.Look({OneRail(9000, 1.1)}, 12, 1).empty());  // too long ago
  EXPECT_TRUE(meter.Look({OneRail(500, 0)}, 12.1, 1).empty());   // another connection
  EXPECT_TRUE(meter.Look({}, 12.2, 1).empty());
  EXPECT_TRUE(meter.Look({OneRail(700, 0)}, 12.3, 1).empty());      // new
  EXPECT_EQ(meter.Look({OneRail(700, 0, 0)}, 12.4, 1).size(), 1u);  // something came
}

// However many communicators a tenant has, it fills no report.
TEST(TrafficMeter, TellsOfTheLargestCommunicatorsOfATenant) {
  TrafficMeter meter;
  transport::LinkTraffic link = OneRail(0, 1);
  std::vector<transport::JobTraffic>& jobs = link.rails[0].jobs;
  for (uint64_t job = 1; job <= 1000; ++job) jobs.push_back({1, job, 1, 0});
  for (uint64_t job = 1; job <= 3; ++job) jobs.push_back({2, job, 1, 0});
  meter.Look({link}, 10, 1);
  for (transport::JobTraffic& job : jobs) job.sent_bytes = 1000 + job.job;
  link.rails[0].sent_bytes = 2'000'000;
  const auto flows = meter.Look({link}, 10.1, 1);
  ASSERT_EQ(flows.size(), 1u);
  ASSERT_EQ(flows[0].jobs.size(), TrafficMeter::kMostOfTenant + 3);
  double first = 0;
  double second = 0;
  for (const JobRate& rate : flows[0].jobs) {
    (rate.tenant == 1 ? first : second) += rate.bytes_per_second;
  }
  EXPECT_NEAR(first, 10 * (1000 * 1000 + 1000 * 1001 / 2), 1);
  EXPECT_NEAR(second, 10 * (3 * 1000 + 6), 1);
  EXPECT_EQ(flows[0].jobs[0].communicator, 1000u);
  EXPECT_EQ(flows[0].jobs[0].sent_bytes, 2000u);
  EXPECT_EQ(flows[0].jobs[1].communicator, 999u);
}

}  // namespace
}  // namespace harmonaize::daemon
