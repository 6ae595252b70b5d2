// `harmonaize maintenance`, `drain`, `promises` and `events --acknowledge` with real daemons, which
// end in the middle, and real ranks.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/ipc/daemon_search.h"
#include "src/ipc/http_client.h"
#include "tests/integration/operator_commands.h"
#include "tests/integration/restarting_daemon.h"
#include "tests/support/daemon_process.h"
#include "tests/support/shared_by_processes.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

/// Returns the status and the text with which the daemon answers at /readyz.
std::pair<int, std::string> Readiness() {
  const Result<FileDescriptor> socket =
      FindDaemonHttp({{.path = getenv("HARMONAIZE_SOCKET"), .named = true}});
  EXPECT_TRUE(socket.ok()) << socket.status().message();
  if (!socket.ok()) return {0, ""};
  const Result<HttpReply> reply = CallHttp(*socket, {.target = "/readyz"}, 10'000);
  EXPECT_TRUE(reply.ok()) << reply.status().message();
  return reply.ok() ? std::pair(reply->status, reply->body) : std::pair(0, std::string());
}

TEST(MaintenanceCommand, KeepsAnAnnouncementOverACrashAndItsFieldsOverAChange) {
  RestartingDaemon daemon;
  const std::string id = Announce({"--in", "2h", "--for", "10min", "--text", "disks"});
  EXPECT_TRUE(id.starts_with("operator-")) << id;
  const json before = Announced(id);
  EXPECT_EQ(before.at("duration_seconds"), 600);
  daemon.Crash();
  EXPECT_EQ(Announced(id), before);
  EXPECT_EQ(Announce({"--id", id, "--at", "2100-01-01T00:00:00Z"}), id);
  const json after = Announced(id);
  EXPECT_EQ(after.at("text"), "disks");
  EXPECT_EQ(after.at("duration_seconds"), 600);
  EXPECT_EQ(after.at("not_before"), "2100-01-01T00:00:00.000000Z");
  const Ended early = Ask({"maintenance", "start", id});
  EXPECT_EQ(early.status, 1);
  ExpectHolds(early.error, "does not begin before 2100-01-01T00:00:00Z");
  EXPECT_EQ(Announced(id).at("state"), "scheduled");
  EXPECT_EQ(Output({"maintenance", "start", "--early", id}), id + " has begun\n");
  daemon.Restart();
  EXPECT_EQ(Announced(id).at("state"), "started");
  EXPECT_EQ(PromiseOf(id).at("kept"), false) << "it began before its time";
  EXPECT_EQ(Output({"maintenance", "complete", id}), id + " is over\n");
  EXPECT_EQ(Announced(id), nullptr);
  daemon.Crash();
  EXPECT_EQ(Announced(id), nullptr);
  EXPECT_EQ(PromiseOf(id).at("kept"), false);
  ExpectHolds(Output({"promises"}), "broken");
}

TEST(MaintenanceCommand, SaysWhatIsWrong) {
  const DaemonProcess daemon;
  for (const char* const word : {"start", "complete", "cancel"}) {
    const Ended unknown = Ask({"maintenance", word, "m8"});
    EXPECT_EQ(unknown.status, 1) << word;
    ExpectHolds(unknown.error, "nothing is announced under the id 'm8'");
  }
  EXPECT_EQ(Ask({"maintenance", "announce", "--id", "m7", "--in", "1h"}).status, 1);
  for (const std::string bad : {"M 7", "drain-7", "", "m_7"}) {
    const Ended refused = Ask({"maintenance", "announce", "--new-id", bad, "--in", "1h"});
    EXPECT_EQ(refused.status, 2) << bad;
    ExpectHolds(refused.error, "--new-id");
    EXPECT_EQ(refused.error.find("new_id"), std::string::npos) << "that is the API's field";
  }
  EXPECT_EQ(Document({"maintenance", "list"}).at("announced"), json::array());
  EXPECT_EQ(Announce({"--new-id", "m7", "--at", "unknown"}), "m7");
  const Ended twice = Ask({"maintenance", "announce", "--new-id", "m7", "--in", "1h"});
  EXPECT_EQ(twice.status, 1);
  ExpectHolds(twice.error, "'m7' is announced already; --id changes it");
  const Ended never = Ask({"maintenance", "complete", "m7"});
  EXPECT_EQ(never.status, 1);
  ExpectHolds(never.error, "has never begun");
  ExpectHolds(never.error, "harmonaize maintenance cancel m7");
  EXPECT_EQ(Output({"maintenance", "start", "m7"}), "m7 has begun\n")
      << "what was announced without a time may begin at any";
  const Ended back = Ask({"maintenance", "announce", "--id", "m7", "--in", "1h"});
  EXPECT_EQ(back.status, 0) << "what is not named, the state too, stays as it was";
  EXPECT_EQ(Announced("m7").at("state"), "started");
  ExpectHolds(Output({"promises"}), "no notice was promised");
  EXPECT_EQ(Ask({"maintenance", "announce", "--in", "soon"}).status, 2);
  EXPECT_EQ(Ask({"maintenance", "announce", "--in", "1h", "--at", "2100-01-01 00:00"}).status, 2);
  const Ended timeless = Ask({"maintenance", "announce", "--text", "disks"});
  EXPECT_EQ(timeless.status, 2);
  ExpectHolds(timeless.error, "when does it begin?");
  EXPECT_EQ(Ask({"maintenance", "announce", "--kind", "unhealthy"}).status, 0);
  const Ended past = Ask({"maintenance", "announce", "--at", "2020-01-01T00:00:00Z"});
  EXPECT_EQ(past.status, 1);
  ExpectHolds(past.error, "2020-01-01T00:00:00Z has passed");
}

TEST(MaintenanceCommand, TakesATimeWithoutAnOptionAndEchoesTheMoment) {
  const DaemonProcess daemon;
  const Ended moment = Ask({"maintenance", "announce", "2100-01-01T02:00+02:00", "--new-id", "m1"});
  EXPECT_EQ(moment.output, "m1\n");
  EXPECT_EQ(moment.error, "harmonaize: m1 does not begin before 2100-01-01T00:00:00Z\n");
  EXPECT_EQ(Ask({"maintenance", "announce", "1h30m", "--new-id", "m2"}).status, 0);
  EXPECT_NE(Announced("m2").at("not_before"), nullptr);
  Announce({"--id", "m2", "--at", "unknown"});
  EXPECT_EQ(Announced("m2").at("not_before"), nullptr) << "the time was taken back";
  EXPECT_EQ(Ask({"maintenance", "announce", "soon"}).status, 2);
  const Ended unitless = Ask({"maintenance", "announce", "30"});
  EXPECT_EQ(unitless.status, 2);
  ExpectHolds(unitless.error, "30 what? A time has a unit");
}

TEST(MaintenanceCommand, WhatIsOverdueIsMarkedAndNewJobsDoNotHearOfIt) {
  const DaemonProcess daemon;
  Announce({"--new-id", "soon", "--in", "1s"});
  while (!Announced("soon").at("overdue")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ExpectHolds(Output({"maintenance", "list"}), "scheduled, overdue");
  Announce({"--new-id", "later", "--in", "1h"});
  EXPECT_EQ(Announced("later").at("overdue"), false);
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    EXPECT_EQ(LastEvent("maintenance.scheduled").at("data").at("maintenance"), "later");
    EXPECT_EQ(Announced("later").at("answers").at(0).at("job_name"), "train");
    EXPECT_EQ(Announced("soon").at("jobs_told"), 0);
  }));
  Output({"maintenance", "start", "soon"});
}

TEST(MaintenanceCommand, JobsReadHowLongThereIsAndNeverMore) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "2d"});
    const json event = LastEvent("maintenance.scheduled");
    const std::string text = event.at("data").at("text");
    const std::string moment = Announced("m1").at("not_before").get<std::string>().substr(0, 19);
    ExpectHolds(text, "maintenance in ");
    ExpectHolds(text, ", at " + moment + "Z ends");
    const bool is_whole = event.at("data").at("notice_seconds") >= 172800;
    ExpectHolds(text, is_whole ? "in 2 d 0 h" : "in 1 d 23 h");
  }));
}

TEST(EventsCommand, AcknowledgesAndAsksForMoreTime) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t communicator, int rank) {
    if (rank == 0) {
      const std::string id = Announce({"--in", "1h"});
      const json event = LastEvent("maintenance.scheduled");
      const std::string event_id = event.at("id");
      EXPECT_EQ(Announced(id).at("jobs_acknowledged"), 0);
      EXPECT_EQ(Announced(id).at("answers").at(0).at("event"), event_id);
      const std::string first = Output({"events", "--acknowledge", event_id});
      ExpectHolds(first, "acknowledged 20");
      EXPECT_EQ(Output({"events", "--acknowledge", event_id}), first) << "again is no error";
      EXPECT_EQ(Announced(id).at("jobs_acknowledged"), 1);
      EXPECT_EQ(LastEvent("notice.answered").at("data").at("event"), event_id);
      ExpectHolds(Output({"events", "--extend", event_id, "--by", "10min"}), "is asked for, until");
      EXPECT_EQ(Announced(id).at("jobs_asked_for_more_time"), 1);
      ExpectHolds(Output({"maintenance", "list"}), "asks for time until");
      const Ended foreign =
          Ask({"events", "--acknowledge", std::string(32, '0') + ".0000000000000001"});
      EXPECT_EQ(foreign.status, 1);
      ExpectHolds(foreign.error, "you have no event");
      // A new time makes the former event one that is out of date.
      Announce({"--id", id, "--in", "3h"});
      EXPECT_EQ(Announced(id).at("jobs_acknowledged"), 0);
      const Ended late = Ask({"events", "--extend", event_id, "--by", "20min"});
      EXPECT_EQ(late.status, 1);
      ExpectHolds(late.error, "out of date");
      Output({"maintenance", "cancel", id});
      const std::string newer = LastEvent("maintenance.scheduled").at("id");
      const Ended over = Ask({"events", "--acknowledge", newer});
      EXPECT_EQ(over.status, 1);
      ExpectHolds(over.error, "that was called off");
    }
    EXPECT_EQ(CountRanks(communicator), 2);
  }));
  EXPECT_EQ(Ask({"events", "--extend", "x"}).status, 2);
}

TEST(EventsCommand, SaysHowToAnswerAndTakesTheBeginningOfAnIdAndThatOfAnAnnouncement) {
  const DaemonProcess daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t communicator, int rank) {
    if (rank == 0) {
      const std::string announced = Announce({"--in", "1h"});
      const std::string id = LastEvent("maintenance.scheduled").at("id");
      const std::string table = Output({"events"});
      ExpectHolds(table, "\n    answer with: harmonaize events --acknowledge " + id);
      const std::string first = Output({"events", "--acknowledge", id.substr(0, 8)});
      ExpectHolds(first, "acknowledged 20");
      EXPECT_EQ(Output({"events", "--acknowledge", announced}), first);
      const std::string other = Announce({"--in", "2h"});
      while (Announced(other).at("jobs_told") == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      const Ended several = Ask({"events", "--acknowledge", id.substr(0, 8)});
      EXPECT_EQ(several.status, 1);
      ExpectHolds(several.error, "may be any of 2 events; say which: " + id + ", ");
      ExpectHolds(Output({"events", "--extend", other, "--by", "10min"}), "is asked for, until");
      Output({"maintenance", "cancel", other});
      EXPECT_EQ(Output({"events", "--acknowledge", id.substr(0, 8)}), first)
          << "one of both can still be answered";
      const Ended over = Ask({"events", "--acknowledge", other});
      EXPECT_EQ(over.status, 1);
      ExpectHolds(over.error, "that was called off");
      const Ended unknown = Ask({"events", "--acknowledge", "zz"});
      EXPECT_EQ(unknown.status, 1);
      ExpectHolds(unknown.error, "`harmonaize events --types maintenance.scheduled --json`");
    }
    EXPECT_EQ(CountRanks(communicator), 2);
  }));
}

TEST(PromisesCommand, KeepsAnswersOverACrash) {
  RestartingDaemon daemon;
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
    if (rank != 0) return;
    Announce({"--new-id", "m1", "--in", "1h"});
    Output({"events", "--acknowledge", LastEvent("maintenance.scheduled").at("id")});
  }));
  daemon.Crash();
  const json promise = PromiseOf("m1");
  EXPECT_EQ(promise.at("told").size(), 1u);
  EXPECT_NE(promise.at("told").at(0).at("acknowledged"), nullptr);
  EXPECT_EQ(promise.at("told").at(0).at("ranks"), json::array({0, 1}));
  EXPECT_EQ(promise.at("kept"), nullptr);
  // The job may still answer, although it has ended here.
  ExpectHolds(Output({"events", "--extend", promise.at("told").at(0).at("event"), "--by", "1min"}),
              "is asked for");
}

TEST(DrainCommand, RefusesNewProgramsAndLetsOthersGoOn) {
  RestartingDaemon daemon;
  EXPECT_EQ(Readiness(), std::pair(200, std::string("ok\n")));
  EXPECT_EQ(Output({"drain", "--show"}), "the daemon serves: it does not drain\n");
  ASSERT_TRUE(WithRanks("train", [&](ncclComm_t communicator, int rank) {
    if (rank == 0) {
      const std::string begun = Output({"drain", "--within", "1h", "--reason", "disks"});
      ExpectHolds(begun, "train");
      ExpectHolds(begun, "reason: disks");
      EXPECT_EQ(Readiness(), std::pair(503, std::string("draining\n")));
      EXPECT_EQ(LastEvent("maintenance.scheduled").at("data").at("ranks"), json::array({0, 1}));
      const json drain = Document({"drain", "--show"});
      EXPECT_EQ(drain.at("state"), "draining");
      EXPECT_EQ(drain.at("reason"), "disks");
      EXPECT_EQ(drain.at("jobs").at(0).at("ranks"), 2);
      // What is not named stays.
      Output({"drain", "--restart"});
      const json again = Document({"drain"});
      EXPECT_EQ(again.at("deadline"), drain.at("deadline"));
      EXPECT_EQ(again.at("reason"), "disks");
      EXPECT_EQ(again.at("restart"), true);
      const json less = Document({"drain", "--no-restart", "--within", "none"});
      EXPECT_EQ(less.at("deadline"), nullptr);
      EXPECT_EQ(less.at("restart"), false);
      EXPECT_EQ(less.at("reason"), "disks");
      EXPECT_EQ(Ask({"drain", "--restart", "--no-restart"}).status, 2);
      const Ended waited = Ask({"drain", "--wait", "--within", "1s"});
      EXPECT_EQ(waited.status, 124);
      ExpectHolds(waited.output, "the deadline has passed: waiting for 1 job with 1 communicator");
      ExpectHolds(waited.error, "harmonaize: waiting for 1 job with 1 communicator: train (");
      ExpectHolds(Output({"drain", "--show"}), "the daemon takes no new programs since");
    }
    EXPECT_EQ(CountRanks(communicator), 2);
    // A program that runs goes on to make communicators.
    ncclComm_t part;
    EXPECT_NCCL(ncclCommSplit(communicator, 0, rank, &part, nullptr));
    EXPECT_NCCL(ncclCommDestroy(part));
  }));
  ExpectHolds(Output({"drain", "--wait"}), "the daemon is drained");
  const auto refused = [] {
    return RunAsProcesses(1, [](int) {
      ncclUniqueId id;
      EXPECT_EQ(ncclGetUniqueId(&id), ncclRemoteError);
      ExpectHolds(std::string(ncclGetLastError(nullptr)), "this host drains");
      return 0;
    });
  };
  EXPECT_EQ(refused(), (std::vector<int>{0}));
  daemon.Crash();
  EXPECT_EQ(Document({"drain", "--show"}).at("state"), "drained") << "a drain outlives the daemon";
  EXPECT_EQ(refused(), (std::vector<int>{0}));
  ExpectHolds(Output({"drain", "--cancel"}), "serves");
  EXPECT_EQ(Readiness().first, 200);
  EXPECT_TRUE(WithRanks("later", [](ncclComm_t, int) {}));
}

TEST(DrainCommand, RestartsTheDaemonOnceTheJobsHaveEnded) {
  RestartingDaemon daemon;
  const pid_t pid = daemon.pid();
  const json before = Document({"drain", "--show"});
  const Environment environment = EnvironmentFor(daemon.socket());
  SharedByProcesses<std::atomic<bool>> heard;
  std::thread jobs([&] {
    EXPECT_TRUE(WithRanks("train", [&](ncclComm_t, int rank) {
      if (rank != 0) return;
      heard->store(true);
      const json restarting = LastEvent("daemon.restarting");
      EXPECT_TRUE(restarting.at("data").contains("deadline")) << restarting;
      EXPECT_EQ(Document({"drain", "--show"}).at("state"), "draining");
    }));
  });
  while (!heard->load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Ended restarted = Ask({"drain", "--wait", "--restart", "--within", "1h"});
  jobs.join();
  EXPECT_EQ(restarted.status, 0) << restarted.error;
  ExpectHolds(restarted.output, "the daemon has restarted, and serves again");
  ExpectHolds(restarted.error, "waiting for 1 job");
  const json after = Document({"drain", "--show"});
  EXPECT_EQ(after.at("state"), "serving");
  EXPECT_NE(after.at("instance"), before.at("instance"));
  EXPECT_EQ(kill(pid, 0), 0) << "the process has kept its number";
  const json told = LastEvent("daemon.restarted");
  EXPECT_TRUE(told.at("data").contains("took_seconds")) << told;
  const json promise = Document({"promises"}).at("promises").at(0);
  EXPECT_EQ(promise.at("kind"), "service_restart");
  EXPECT_EQ(promise.at("kept"), true) << "it was early, but nobody was left";
  EXPECT_TRUE(WithRanks("later", [](ncclComm_t, int) {}));
}

TEST(DrainCommand, RestartsAtTheDeadlineWhoeverIsLeft) {
  RestartingDaemon daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) {
      const Ended restarted = Ask({"drain", "--wait", "--restart", "--within", "2s"});
      EXPECT_EQ(restarted.status, 124) << restarted.error;
      ExpectHolds(restarted.output, "1 communicator that was left ended with it");
    }
    std::vector<float> data(8, 1);
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 8, ncclFloat, ncclSum, communicator, nullptr),
              ncclRemoteError);
    static_cast<void>(ncclCommAbort(communicator));
    return 0;
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  EXPECT_EQ(Document({"promises"}).at("promises").at(0).at("kept"), true);
  EXPECT_EQ(Document({"drain", "--show"}).at("state"), "serving");
}

TEST(DrainCommand, ACrashOfADaemonThatIsToRestartIsARestart) {
  RestartingDaemon daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) Output({"drain", "--restart", "--within", "1h"});
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) kill(daemon.pid(), SIGKILL);
    static_cast<void>(ncclCommAbort(communicator));
    return 0;
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
  daemon.Crash();
  EXPECT_EQ(Document({"drain", "--show"}).at("state"), "serving");
  EXPECT_EQ(Document({"promises"}).at("promises").at(0).at("kept"), false);
  LastEvent("daemon.restarted");
  EXPECT_TRUE(WithRanks("later", [](ncclComm_t, int) {}));
}

}  // namespace
}  // namespace harmonaize::testing
