// What jobs hear of announcements, and what operators read of their answers, with real daemons and
// real ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/json_text.h"
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
  for (std::string line; std::getline(lines, line);) events.push_back(ReadJson(line));
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
    Announce({"--id", "past", "--for", "10min", "--text", "disks"});
    EXPECT_EQ(EventsOf("maintenance.scheduled").size(), 1u) << "it is overdue still";
    Output({"maintenance", "cancel", "past"});
    Output({"maintenance", "cancel", "later"});
    const std::vector<json> ended = EventsOf("maintenance.completed");
    ASSERT_EQ(ended.size(), 1u) << "what a job has never heard of does not end for it";
    EXPECT_EQ(ended[0].at("data").at("maintenance"), "later");
  }));
}

// They are told some at a time.
TEST(Announcements, AllOfManyJobsHearOfItOnceAndOfItsEnd) {
  constexpr int kJobs = 100;
  const DaemonProcess daemon;
  const auto heard = [](const std::string& type) {
    std::set<std::string> jobs;
    for (int i = 0; i < 200 && jobs.size() < kJobs; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::vector<json> events = EventsOf(type);
      for (const json& event : events) jobs.insert(event.at("source"));
      EXPECT_EQ(events.size(), jobs.size()) << type;
    }
    return jobs.size();
  };
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    std::vector<ncclComm_t> communicators(kJobs);
    for (ncclComm_t& communicator : communicators) {
      ncclUniqueId id;
      EXPECT_NCCL(ncclGetUniqueId(&id));
      EXPECT_NCCL(ncclCommInitRank(&communicator, 1, id, 0));
    }
    Announce({"--new-id", "m1", "--in", "1h"});
    EXPECT_EQ(heard("maintenance.scheduled"), kJobs);
    Output({"maintenance", "cancel", "m1"});
    EXPECT_EQ(heard("maintenance.completed"), kJobs);
    for (const ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

TEST(Announcements, AJobThatHasEndedIsNotWaitedForAlsoAfterARestart) {
  RestartingDaemon daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "1h"});
    EXPECT_EQ(Announced("m1").at("jobs_told"), 1);
    EXPECT_EQ(Announced("m1").at("answers").at(0).at("ended"), false);
  }));
  const auto expect_ended = [] {
    const json after = Announced("m1");
    EXPECT_EQ(after.at("jobs_told"), 0);
    EXPECT_EQ(after.at("jobs_ended"), 1);
    EXPECT_EQ(after.at("answers").at(0).at("ended"), true);
    ExpectHolds(Output({"maintenance", "list"}), ": ended\n");
  };
  expect_ended();
  daemon.Crash();
  expect_ended();
}

TEST(Announcements, TheLastAnswerOfAJobCountsAndTheListShowsBoth) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "1h"});
    Output({"events", "--extend", "m1", "--by", "10min"});
    EXPECT_EQ(Announced("m1").at("jobs_asked_for_more_time"), 1);
    Output({"events", "--acknowledge", "m1"});
    EXPECT_EQ(Announced("m1").at("jobs_acknowledged"), 1);
    EXPECT_EQ(Announced("m1").at("jobs_asked_for_more_time"), 0);
    ExpectHolds(Output({"maintenance", "list"}), " (asked for time until ");
    Output({"events", "--extend", "m1", "--by", "10min"});
    EXPECT_EQ(Announced("m1").at("jobs_acknowledged"), 0);
    ExpectHolds(Output({"maintenance", "list"}), "0 of 1, 1 asks for more time\n");
    Output({"events", "--acknowledge", "m1"});
    EXPECT_EQ(Announced("m1").at("jobs_acknowledged"), 1) << "the job is ready after all";
  }));
}

TEST(Announcements, ADrainShowsWhoHasAnswered) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    ExpectHolds(Output({"drain", "--within", "1h"}), "not acknowledged");
    Output({"events", "--acknowledge", LastEvent("maintenance.scheduled").at("id")});
    const std::string shown = Output({"drain", "--show"});
    EXPECT_EQ(shown.find("not acknowledged"), std::string::npos) << shown;
    ExpectHolds(shown, "  acknowledged 20");
    const Ended waited = Ask({"drain", "--wait", "--within", "1s"});
    ExpectHolds(waited.error, ", not acknowledged)");  // Another time asks anew.
    Output({"drain", "--cancel"});
  }));
}

TEST(Announcements, AnEventThatIsOutOfDateIsRefusedWithTheNewestOne) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "1h"});
    const std::string first = LastEvent("maintenance.scheduled").at("id");
    Output({"events", "--acknowledge", first});
    Announce({"--id", "m1", "--in", "2h"});
    Announce({"--id", "m1", "--in", "3h"});
    const std::string newest = LastEvent("maintenance.scheduled").at("id");
    const Ended again = Ask({"events", "--acknowledge", first});
    EXPECT_EQ(again.status, 1) << "the job has not acknowledged what holds now";
    ExpectHolds(again.error, "out of date; answer '" + newest + "', which took its place");
    EXPECT_EQ(Announced("m1").at("jobs_acknowledged"), 0);
    Output({"maintenance", "cancel", "m1"});
    const Ended over = Ask({"events", "--acknowledge", first});
    EXPECT_EQ(over.status, 1);
    ExpectHolds(over.error, "'" + newest + "' took its place, but that was called off");
  }));
}

TEST(Announcements, AnEarlierTimeBreaksAPromiseAndHasToBeWantedOnce) {
  const DaemonProcess daemon;
  Announce({"--new-id", "m1", "--in", "2h"});
  const std::string promised = Announced("m1").at("not_before");
  const Ended earlier = Ask({"maintenance", "announce", "--id", "m1", "--in", "1s"});
  EXPECT_EQ(earlier.status, 1);
  ExpectHolds(earlier.error, "does not begin before " + promised.substr(0, 19) + "Z");
  ExpectHolds(earlier.error, "--early");
  EXPECT_EQ(Announced("m1").at("not_before"), promised) << "a refusal changes nothing";
  EXPECT_EQ(PromiseOf("m1").at("kept"), nullptr);
  Announce({"--id", "m1", "--in", "1s", "--early"});
  EXPECT_EQ(PromiseOf("m1").at("kept"), false);
  EXPECT_EQ(PromiseOf("m1").at("promised_from"), promised);
  AwaitOverdue("m1");
  EXPECT_EQ(Output({"maintenance", "start", "m1"}), "m1 has begun\n");
  EXPECT_EQ(PromiseOf("m1").at("kept"), false);
}

TEST(Announcements, AHostThatIsNotHealthyIsAnsweredToldOfOnceAndCalledOff) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "disks", "--kind", "unhealthy"});
    EXPECT_EQ(LastEvent("host.failing").at("severitytext"), "ERROR");
    EXPECT_EQ(Announced("disks").at("jobs_told"), 1);
    ExpectHolds(Output({"events", "--acknowledge", "disks"}), "acknowledged 20");
    EXPECT_EQ(Announced("disks").at("jobs_acknowledged"), 1);
    Output({"maintenance", "start", "disks"});
    EXPECT_EQ(EventsOf("host.failing").size(), 1u) << "it held from the beginning";
    EXPECT_EQ(Announced("disks").at("jobs_acknowledged"), 1);
    EXPECT_EQ(PromiseOf("disks"), nullptr) << "no time was promised";
    Output({"maintenance", "cancel", "disks"});
    const json ended = LastEvent("maintenance.completed");
    EXPECT_EQ(ended.at("data").at("maintenance"), "disks");
    ExpectHolds(ended.at("data").at("text"), "healthy again");
  }));
}

TEST(Announcements, ARiskSaysWhenItIsKnownAndIsCalledOff) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "spot", "--kind", "risk_of_reclaim", "--in", "1h"});
    ExpectHolds(LastEvent("capacity.forecast").at("data").at("text"), "may be taken back in ");
    Output({"maintenance", "cancel", "spot"});
    const json ended = LastEvent("capacity.forecast");
    EXPECT_EQ(ended.at("data").at("recommended_action"), "none");
    ExpectHolds(ended.at("data").at("text"), "are not at risk of being taken back any more");
  }));
}

TEST(Announcements, ADrainTellsJobsThatNothingEndsThemAndPromisesNothing) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Output({"drain"});
    const json begun = LastEvent("maintenance.scheduled").at("data");
    EXPECT_EQ(begun.at("text"),
              "the service of ranks 0, 1 takes no new programs; what runs goes on, and may take as "
              "long as it needs");
    EXPECT_EQ(begun.at("kind"), "unknown");
    EXPECT_EQ(begun.at("recommended_action"), "none");
    Output({"drain", "--restart"});
    ExpectHolds(LastEvent("maintenance.scheduled").at("data").at("text"),
                ", and restarts once none is left; what runs goes on");
    Output({"drain", "--no-restart", "--within", "1s"});
    ExpectHolds(LastEvent("maintenance.scheduled").at("data").at("text"), "is waited for until 20");
    const std::string id = begun.at("maintenance");
    AwaitOverdue(id);
    Output({"drain", "--cancel"});
    EXPECT_EQ(LastEvent("maintenance.completed").at("data").at("text"),
              "the service of ranks 0, 1 takes new programs again");
    EXPECT_EQ(PromiseOf(id), nullptr) << "nothing that could be early was promised";
  }));
}

TEST(EventsCommand, SaysWhichMaintenanceChangesAndOffersAnAnswerWhereThereCanBeOne) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "2d", "--for", "10min"});
    const std::string first = LastEvent("maintenance.scheduled").at("id");
    Announce({"--id", "m1", "--for", "20min"});
    const json changed = LastEvent("maintenance.scheduled");
    const std::string text = changed.at("data").at("text");
    EXPECT_TRUE(text.starts_with("changed: maintenance in ")) << text;
    ExpectHolds(text, ", for 20 min 0 s, ends ranks 0, 1");
    Output({"events", "--acknowledge", "m1"});
    EXPECT_EQ(LastEvent("notice.answered").at("data").at("text"),
              "maintenance.scheduled of m1 is acknowledged");
    const std::string offer = "answer with: harmonaize events --acknowledge ";
    const std::string table = Output({"events"});
    ExpectHolds(table, "ends ranks 0, 1 (m1)\n");
    ExpectHolds(table, offer + changed.at("id").get<std::string>());
    EXPECT_EQ(table.find(offer + first), std::string::npos) << "it is out of date";
    Output({"maintenance", "cancel", "m1"});
    EXPECT_EQ(Output({"events"}).find(offer), std::string::npos) << "it was called off";
  }));
}

TEST(AuditLog, SaysWhatOperatorsHaveAnnouncedBegunAndCalledOff) {
  RestartingDaemon daemon;
  Announce({"--new-id", "m1", "--in", "1h"});
  EXPECT_EQ(Ask({"maintenance", "start", "m1"}).status, 1) << "it is not time yet";
  Output({"maintenance", "start", "--early", "m1"});
  Output({"drain"});
  Output({"drain", "--cancel"});
  daemon.End();
  std::ifstream file(daemon.state_path() + "/audit.log");
  std::vector<std::string> changes;
  for (std::string line; std::getline(file, line);) {
    const json entry = ReadJson(line);
    changes.push_back(entry.value("id", "-") + " " + entry.value("state", "-") + " " +
                      std::to_string(entry.value("status", 0)));
  }
  EXPECT_EQ(changes,
            (std::vector<std::string>{"m1 scheduled 200", "m1 started 409", "m1 started 200",
                                      "- drained 200", "- serving 200"}));
  daemon.Begin();
}

}  // namespace
}  // namespace harmonaize::testing
