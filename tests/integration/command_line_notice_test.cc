// What jobs hear of announcements, and what operators read of their answers, with real daemons and
// real ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/operator_commands.h"
#include "tests/integration/restarting_daemon.h"
#include "tests/support/daemon_process.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

/// Returns the events that this daemon has told of these types, the oldest first.
std::vector<json> EventsOf(const std::string& types) {
  std::vector<json> events;
  std::istringstream lines(Output({"events", "--json", "--types", types}));
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  return events;
}

/// Waits until what was announced is overdue.
void AwaitOverdue(const std::string& id) {
  while (!Announced(id).at("overdue")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(Announcements, AJobHearsOfWhatIsNewAloneAndNotOfWhatIsOverdue) {
  const DaemonProcess daemon;
  Announce({"--new-id", "past", "--in", "1s"});
  AwaitOverdue("past");
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "later", "--in", "1h"});
    EXPECT_EQ(LastEvent("maintenance.scheduled").at("data").at("maintenance"), "later");
    EXPECT_EQ(EventsOf("maintenance.scheduled").size(), 1u);
    Output({"maintenance", "cancel", "past"});
    Output({"maintenance", "cancel", "later"});
    const std::vector<json> ended = EventsOf("maintenance.completed");
    ASSERT_EQ(ended.size(), 1u) << "what a job has never heard of does not end for it";
    EXPECT_EQ(ended[0].at("data").at("maintenance"), "later");
  }));
}

}  // namespace
}  // namespace harmonaize::testing
