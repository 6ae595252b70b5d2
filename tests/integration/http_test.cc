// The HTTP interface of a daemon at its Unix sockets and over TCP, with jobs of two users.

#include <gtest/gtest.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "nccl.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_http.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"
#include "tests/support/stranger.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

Answer AsTenant(const std::string& daemon_socket, const std::string& target) {
  return Ask(daemon_socket, {.target = target});
}

Answer AsOperator(const std::string& daemon_socket, const HttpCall& call) {
  return Ask(OperatorSocketPath(daemon_socket), call);
}

TEST(Http, ShowsAJobWithItsRanksAndWhatItHasDone) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", "a job with a name", 1);
    setenv("HARMONAIZE_JOB_KIND", "training", 1);
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 2);
    const auto [status, jobs] = AsTenant(daemon.socket_path(), "/v1/jobs");
    EXPECT_EQ(status, 200);
    EXPECT_EQ(jobs.at("jobs").size(), 1u);
    const json& job = jobs.at("jobs").at(0);
    EXPECT_EQ(job.at("name"), "a job with a name");
    EXPECT_EQ(job.at("kind"), "training");
    EXPECT_EQ(job.at("ended"), nullptr);
    for (const std::string& which :
         {job.at("id").get<std::string>(), EncodeForUrl(job.at("name").get<std::string>())}) {
      const auto [found, ranks] = AsTenant(daemon.socket_path(), "/v1/jobs/" + which + "/ranks");
      EXPECT_EQ(found, 200) << which;
      EXPECT_EQ(ranks.at("communicators").at(0).at("ranks").size(), 2u);
      EXPECT_FALSE(ranks.at("communicators").at(0).at("ranks").at(0).contains("process"));
    }
    EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/jobs/none").first, 404);
    EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/tenants").first, 404) << "operators' alone";
    EXPECT_EQ(CountRanks(communicator), 2);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Http, AnAnswerAtOneHostReachesTheOneThatAnnounced) {
  TestCluster cluster(3);
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "over three hosts", 1);
    ncclComm_t all = ranks.Join(rank);
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(all, "maintenance.scheduled", nullptr, nullptr, nullptr, &events));
    EXPECT_EQ(CountRanks(all), 3);
    if (rank == 1) {
      const auto [status, notice] =
          AsOperator(cluster.daemon(1).socket_path(),
                     {.method = "POST",
                      .target = "/v1/hosts/this/maintenance",
                      .body = R"({"new_id": "m1", "not_before": "2100-01-01T00:00:00Z"})"});
      EXPECT_EQ(status, 200) << notice;
    }
    hzEvent_t event;
    EXPECT_NCCL(hzNextEvent(events, kAnsweredWithinMs, &event));
    EXPECT_EQ(ReadJson(event.json).at("data").at("ranks"), json::array({1}));
    if (rank == 2) {
      EXPECT_NCCL(hzAcknowledge(event.id));
      EXPECT_NCCL(hzExtend(event.id, 60));
    }
    if (rank == 1) {
      json list;
      for (int i = 0; i < 400; ++i) {
        list = AsOperator(cluster.daemon(1).socket_path(), {.target = "/v1/hosts/this/maintenance"})
                   .second.at("announced")
                   .at(0);
        if (list.at("jobs_asked_for_more_time") == 1) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      EXPECT_EQ(list.at("jobs_acknowledged"), 0) << "the last answer counts: " << list;
      EXPECT_NE(list.at("answers").at(0).at("acknowledged"), nullptr) << list;
      EXPECT_EQ(list.at("asked_until"), "2100-01-01T00:01:00.000000Z") << list;
    }
    EXPECT_EQ(CountRanks(all), 3);
    EXPECT_NCCL(hzUnsubscribe(events));
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST(Http, AnnouncedMaintenanceReachesTheRanksOfAJob) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(communicator, "maintenance.*", nullptr, nullptr, nullptr, &events));
    EXPECT_EQ(CountRanks(communicator), 2);
    if (rank == 0) {
      const auto [status, notice] = AsOperator(
          daemon.socket_path(),
          {.method = "POST",
           .target = "/v1/hosts/this/maintenance",
           .body =
               R"({"new_id": "m1", "duration_seconds": 60, "survives": true, "text": "disks"})"});
      EXPECT_EQ(status, 200) << notice;
    }
    hzEvent_t event;
    EXPECT_NCCL(hzNextEvent(events, kAnsweredWithinMs, &event));
    const json heard = ReadJson(event.json);
    EXPECT_EQ(heard.at("type"), "io.harmonaize.maintenance.scheduled");
    EXPECT_EQ(heard.at("data").at("ranks"), json::array({0, 1}));
    EXPECT_EQ(heard.at("data").at("kind"), "pause");
    EXPECT_EQ(JsonText(heard).find("disks"), std::string::npos) << "the text is for operators";
    if (rank == 1) {
      EXPECT_NCCL(hzAcknowledge(event.id));
      EXPECT_NCCL(hzAcknowledge(event.id));
      EXPECT_EQ(hzExtend(event.id, 60), ncclInvalidUsage) << "nobody knows when it begins";
      EXPECT_EQ(hzExtend(event.id, 0), ncclInvalidArgument);
      EXPECT_EQ(hzAcknowledge("0.0"), ncclInvalidUsage);
      EXPECT_EQ(hzAcknowledge(nullptr), ncclInvalidArgument);
      const auto [status, list] =
          AsOperator(daemon.socket_path(), {.target = "/v1/hosts/this/maintenance"});
      EXPECT_EQ(status, 200) << list;
      EXPECT_EQ(list.at("announced").at(0).at("jobs_acknowledged"), 1) << list;
    }
    EXPECT_EQ(CountRanks(communicator), 2);
    EXPECT_NCCL(hzUnsubscribe(events));
    // A job that comes later hears of it, too.
    ncclComm_t later;
    setenv("HARMONAIZE_JOB", "later", 1);
    EXPECT_NCCL(JoinNamed("later", 2, rank, &later));
    EXPECT_NCCL(hzSubscribe(later, nullptr, "", nullptr, nullptr, &events));
    EXPECT_NCCL(hzNextEvent(events, kAnsweredWithinMs, &event));
    EXPECT_EQ(ReadJson(event.json).at("type"), "io.harmonaize.maintenance.scheduled");
    EXPECT_NCCL(hzUnsubscribe(events));
    EXPECT_EQ(CountRanks(communicator), 2);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Http, AHostIsNamedByItsMachinesNameToo) {
  const DaemonProcess daemon;
  char name[HOST_NAME_MAX + 1] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  const auto ask = [&](const std::string& target) {
    return AsOperator(daemon.socket_path(), {.target = target});
  };
  EXPECT_EQ(ask("/v1/hosts").second.at("hosts").at(0).at("name"), name);
  for (const std::string& host : {std::string(name), std::string("this")}) {
    EXPECT_EQ(ask("/v1/hosts/" + host + "/maintenance").first, 200) << host;
    EXPECT_EQ(ask("/v1/hosts/" + host + "/drain").first, 200) << host;
  }
  const auto [status, refusal] = ask("/v1/hosts/" + std::string(name) + "x/maintenance");
  EXPECT_EQ(status, 404);
  ExpectHolds(JsonText(refusal), std::string("the host '") + name + "' alone");
}

TEST(Http, OperatorsTellJobsWhatFitsTheSchema) {
  const DaemonProcess daemon;
  const auto inject = [&](const std::string& body) {
    return AsOperator(daemon.socket_path(),
                      {.method = "POST", .target = "/v1/events", .body = body});
  };
  EXPECT_EQ(inject("no JSON").first, 400);
  EXPECT_EQ(inject(R"({"job": "", "type": "rank.lat", "data": {}})").first, 400);
  EXPECT_EQ(inject(R"({"job": "", "type": "daemon.restarted", "data": {}})").first, 400);
  EXPECT_EQ(inject(R"({"job": "", "typ": "daemon.restarted", "data": {"text": "x"}})")
                .second.at("detail"),
            "there is no field 'typ', did you mean 'type'?");
  const std::string good = R"({"job": "JOB", "type": "daemon.restarted", "data": {"text": "x"}})";
  EXPECT_EQ(inject(std::string(good).replace(9, 3, std::string(32, 'a'))).first, 404);
  EXPECT_EQ(inject(std::string(good).replace(9, 3, "")).first, 200);
  const auto [status, page] = AsOperator(daemon.socket_path(), {.target = "/v1/events"});
  EXPECT_EQ(status, 200);
  EXPECT_EQ(page.at("events").size(), 1u);
  EXPECT_EQ(page.at("events").at(0).at("source"), "/harmonaize/host");
  EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/events").second.at("events").size(), 0u);
}

// Two users run a job each. Neither finds anything of the other's, by whatever path.
TEST(Http, UsersDoNotSeeEachOther) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become two users";
  const DaemonProcess daemon;
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  struct Board {
    char ids[2][64];
    std::atomic<int> step;
  };
  SharedByProcesses<Board> board;
  const auto meet = [&](int step) {
    ++board->step;
    for (int i = 0; i < kAnsweredWithinMs && board->step < step; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  std::vector<pid_t> children;
  for (const int me : {0, 1}) {
    children.push_back(StartAs(me == 0 ? kAlice : kBob, [&, me]() {
      setenv("HARMONAIZE_JOB", me == 0 ? "of alice" : "of bob", 1);
      ncclComm_t alone;
      if (JoinNamed("alone", 1, 0, &alone) != ncclSuccess) return 2;
      const auto [status, jobs] = AsTenant(daemon.socket_path(), "/v1/jobs");
      EXPECT_EQ(jobs.at("jobs").size(), 1u);
      jobs.at("jobs").at(0).at("id").get<std::string>().copy(board->ids[me], 63);
      meet(2);
      EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/jobs").second.at("jobs").size(), 1u);
      const std::string other = board->ids[1 - me];
      const auto none = AsTenant(daemon.socket_path(), "/v1/jobs/" + std::string(32, 'b'));
      EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/jobs/" + other), none) << "as if it was not";
      for (const char* const part : {"/stuck", "/flight"}) {
        EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/jobs/" + other + part), none) << part;
      }
      const char* const name = me == 0 ? "/v1/jobs/of%20bob" : "/v1/jobs/of%20alice";
      EXPECT_EQ(AsTenant(daemon.socket_path(), name), none);
      const auto events = AsTenant(daemon.socket_path(), "/v1/events?from=start&job=" + other);
      EXPECT_EQ(events.second.at("events").size(), 0u);
      meet(4);
      float data[4] = {};
      EXPECT_EQ(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, alone, nullptr), ncclSuccess);
      EXPECT_NE(AsTenant(daemon.socket_path(), "/metrics").first, 200);
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(StatusOf(child), 0);
  const auto [status, jobs] = AsOperator(daemon.socket_path(), {.target = "/v1/jobs"});
  EXPECT_EQ(jobs.at("jobs").size(), 2u) << "operators see all";
}

// Operators are told when a name does not say whose job is meant. Each user finds its own.
TEST(Http, ANameThatJobsOfTwoUsersHaveStandsForNeither) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become two users";
  const DaemonProcess daemon;
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  const std::string order = R"({"job":"train","type":"daemon.restarted","data":{"text":"x"}})";
  const auto tell = [&] {
    return AsOperator(daemon.socket_path(),
                      {.method = "POST", .target = "/v1/events", .body = order})
        .first;
  };
  const auto run = [&] {
    setenv("HARMONAIZE_JOB", "train", 1);
    ncclComm_t alone;
    EXPECT_EQ(JoinNamed("alone", 1, 0, &alone), ncclSuccess);
    EXPECT_EQ(AsTenant(daemon.socket_path(), "/v1/jobs/train").first, 200);
  };
  EXPECT_EQ(tell(), 404);
  Stranger bob(run);
  EXPECT_EQ(AsOperator(daemon.socket_path(), {.target = "/v1/jobs/train"}).first, 200);
  EXPECT_EQ(tell(), 200);
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    run();
    for (const char* const part : {"", "/ranks", "/stuck"}) {
      const std::string target = "/v1/jobs/train" + std::string(part);
      // A snapshot is a moment old.
      int status = 0;
      for (int i = 0; i < 200 && status != 409; ++i) {
        status = AsOperator(daemon.socket_path(), {.target = target}).first;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      EXPECT_EQ(status, 409) << part;
    }
    EXPECT_EQ(tell(), 409);
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

}  // namespace
}  // namespace harmonaize::testing
