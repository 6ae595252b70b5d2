// What tenants say of their jobs, what the provider's policy grants, and what follows on one host.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "nccl.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/support/daemon_http.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/job_views.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

Answer Put(const std::string& socket_path, const std::string& target, const std::string& text) {
  return Ask(socket_path,
             {.method = "PUT", .target = target, .body = text, .content_type = "application/toml"});
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

/// Runs one rank in a process of its own, at the daemon of this process.
void RunAlone(const std::function<void(ncclComm_t communicator)>& body) {
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    ncclComm_t alone;
    if (JoinNamed("alone", 1, 0, &alone) != ncclSuccess) return 2;
    body(alone);
    EXPECT_NCCL(ncclCommDestroy(alone));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

TEST(Requirements, AFileIsStatedWithTheFirstCommunicatorAndWhatIsLessThanAskedIsTold) {
  const DaemonProcess daemon("[policy]\nmost_priority = 1\n");
  const std::string file = daemon.folder() + "/job.toml";
  Write(file,
        "[job]\nname = \"llama\"\nkind = \"training\"\n[collectives]\npriority = 3\n"
        "bandwidth_floor = \"1 GB/s\"\nobjective = \"throughput\"\n");
  setenv("HARMONAIZE_REQUIREMENTS", file.c_str(), 1);
  const std::string log = daemon.folder() + "/debug.log";
  setenv("NCCL_DEBUG", "WARN", 1);
  setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
  RunAlone([&](ncclComm_t alone) {
    const json granted = GrantedTo(alone);
    EXPECT_EQ(granted.at("name"), "llama");
    EXPECT_EQ(granted.at("values").at("collectives.priority"), 1);
    EXPECT_EQ(granted.at("values").at("collectives.objective"), "throughput");
    EXPECT_FALSE(granted.at("values").contains("collectives.bandwidth_floor"));
    ASSERT_EQ(granted.at("shortfalls").size(), 2u) << granted;
    EXPECT_EQ(granted.at("shortfalls").at(0).at("key"), "collectives.priority");
    EXPECT_EQ(granted.at("shortfalls").at(0).at("asked"), "3");
    EXPECT_EQ(granted.at("shortfalls").at(0).at("granted"), "1");
    EXPECT_EQ(granted.at("shortfalls").at(1).at("granted"), nullptr);
    const Answer stated = Ask(daemon.socket_path(), {.target = "/v1/jobs/llama/requirements"});
    EXPECT_EQ(stated.first, 200);
    EXPECT_EQ(stated.second.at("values").at("collectives.priority"), 3);
    EXPECT_EQ(CountRanks(alone), 1);
  });
  for (const char* name : {"HARMONAIZE_REQUIREMENTS", "NCCL_DEBUG", "NCCL_DEBUG_FILE"}) {
    unsetenv(name);
  }
  std::ifstream file_of_log(log);
  const std::string told{std::istreambuf_iterator<char>(file_of_log), {}};
  EXPECT_NE(told.find("collectives.priority: asked 3, granted 1: the provider's policy"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("collectives.bandwidth_floor: asked \"1 GB/s\", granted nothing: "),
            std::string::npos)
      << told;
}

TEST(Requirements, AJobKeepsTheNameThatItBeganWith) {
  const DaemonProcess daemon;
  RunAlone([&](ncclComm_t alone) {
    EXPECT_NCCL(hzSetRequirements(alone, "job = {name = 'other', kind = 'batch'}"));
    const json granted = GrantedTo(alone);
    ASSERT_EQ(granted.at("shortfalls").size(), 2u) << granted;
    EXPECT_EQ(granted.at("shortfalls").at(0).at("key"), "job.name");
    EXPECT_EQ(granted.at("shortfalls").at(0).at("asked"), "\"other\"");
    EXPECT_EQ(granted.at("shortfalls").at(0).at("granted"), nullptr);
    EXPECT_EQ(granted.at("shortfalls").at(1).at("granted"), "\"unknown\"");
  });
}

TEST(Requirements, AFileIsStatedAgainOnlyOnceTheProcessHasNoCommunicatorThatStatedIt) {
  const DaemonProcess daemon;
  const std::string file = daemon.folder() + "/job.toml";
  Write(file, "job.name = 'llama'\nfaults.late_after = '7 s'\n");
  setenv("HARMONAIZE_REQUIREMENTS", file.c_str(), 1);
  const auto late_after = [](ncclComm_t communicator) {
    return GrantedTo(communicator).at("values").at("faults.late_after").get<std::string>();
  };
  RunAlone([&](ncclComm_t first) {
    EXPECT_EQ(late_after(first), "7 s");
    EXPECT_NCCL(hzSetRequirements(first, "faults.late_after = '9 s'"));
    ncclComm_t second;
    ASSERT_EQ(JoinNamed("second", 1, 0, &second), ncclSuccess);
    EXPECT_EQ(late_after(second), "9 s") << "what was said later holds";
    const auto in_child = [&](int) {
      ncclComm_t of_child;
      if (JoinNamed("third", 1, 0, &of_child) != ncclSuccess) return 2;
      EXPECT_EQ(late_after(of_child), "7 s") << "a forked process is another one";
      EXPECT_NCCL(ncclCommDestroy(of_child));
      return 0;
    };
    EXPECT_EQ(RunAsProcesses(1, in_child), std::vector<int>{0});
    EXPECT_NCCL(ncclCommDestroy(second));
  });
  unsetenv("HARMONAIZE_REQUIREMENTS");
}

TEST(Requirements, AFileWithAMistakeMakesNoCommunicator) {
  const DaemonProcess daemon;
  const std::string file = daemon.folder() + "/job.toml";
  Write(file, "[collectives]\n\npriorty = 3\n");
  for (const std::string& path : {file, daemon.folder() + "/none.toml", std::string("/dev/zero")}) {
    setenv("HARMONAIZE_REQUIREMENTS", path.c_str(), 1);
    const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
      ncclComm_t alone = nullptr;
      EXPECT_NE(JoinNamed("alone", 1, 0, &alone), ncclSuccess) << path;
      const std::string error = ncclGetLastError(nullptr);
      EXPECT_NE(error.find(path), std::string::npos) << error;
      if (path == file) {
        EXPECT_NE(error.find(":3:1: unknown key 'collectives.priorty', did you mean "
                             "'collectives.priority'?"),
                  std::string::npos)
            << error;
      }
      return 0;
    });
    EXPECT_EQ(statuses, std::vector<int>{0});
  }
  unsetenv("HARMONAIZE_REQUIREMENTS");
}

TEST(Requirements, LaterStatementsReplaceEarlierOnesKeyByKey) {
  const DaemonProcess daemon;
  RunAlone([&](ncclComm_t alone) {
    EXPECT_EQ(GrantedTo(alone).at("text"), "");
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '9 s'\ncollectives.inline = false"));
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '7 s'"));
    json granted = GrantedTo(alone);
    EXPECT_EQ(granted.at("values").at("faults.late_after"), "7 s");
    EXPECT_EQ(granted.at("values").at("collectives.inline"), false);
    EXPECT_EQ(granted.at("changes"), 2);
    // What changes nothing counts as no change.
    for (int i = 0; i < 100; ++i) {
      EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '7 s'"));
    }
    EXPECT_EQ(hzSetRequirements(alone, "faults.late_after = 7"), ncclInvalidArgument);
    EXPECT_MENTIONS(alone, "text:1:21: 'faults.late_after'");
    EXPECT_EQ(hzSetRequirements(alone, nullptr), ncclInvalidArgument);
    EXPECT_EQ(hzSetRequirements(nullptr, ""), ncclInvalidArgument);
    EXPECT_EQ(GrantedTo(alone), granted) << "a mistake changes nothing";
    const std::string job = granted.at("job");
    const Answer forgotten = Ask(
        daemon.socket_path(), {.method = "DELETE", .target = "/v1/jobs/" + job + "/requirements"});
    EXPECT_EQ(forgotten.first, 200);
    EXPECT_EQ(forgotten.second.at("text"), "");
    // What was said after that holds.
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '7 s'"));
    EXPECT_EQ(GrantedTo(alone).at("values").size(), 1u);
  });
}

TEST(Requirements, HttpTellsOfMistakesAndOfWhatWouldBeGranted) {
  const DaemonProcess daemon("[policy]\nmost_bandwidth_floor = \"1 GB/s\"\n");
  RunAlone([&](ncclComm_t alone) {
    const std::string job = GrantedTo(alone).at("job");
    const std::string target = "/v1/jobs/" + job + "/requirements";
    const Answer wrong = Put(daemon.socket_path(), target, "\n[fualts]\n");
    EXPECT_EQ(wrong.first, 400);
    EXPECT_NE(wrong.second.at("detail").get<std::string>().find("requirements:2:"),
              std::string::npos)
        << wrong.second;
    EXPECT_EQ(Put(daemon.socket_path(), "/v1/jobs/none/requirements", "").first, 404);
    EXPECT_EQ(Put(daemon.socket_path(), target, std::string(70'000, '#')).first, 413);
    EXPECT_EQ(Ask(daemon.socket_path(), {.method = "PUT", .target = target, .body = "{}"}).first,
              415);
    const Answer check = Ask(daemon.socket_path(), {.method = "POST",
                                                    .target = "/v1/requirements/check",
                                                    .body = "collectives.priority = 2",
                                                    .content_type = "application/toml"});
    EXPECT_EQ(check.first, 200);
    EXPECT_EQ(check.second.at("shortfalls").size(), 1u) << check.second;
    EXPECT_EQ(GrantedTo(alone).at("changes"), 0) << "a check changes nothing";
  });
}

TEST(Requirements, ThePolicyIsReadAnewOnSighup) {
  const DaemonProcess daemon("[policy]\nmost_priority = 0\n");
  const std::string config = daemon.folder() + "/provider.toml";
  const std::string before = [&] {
    std::ifstream file(config);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  ASSERT_NE(before.find("most_priority = 0"), std::string::npos) << before;
  const auto rewrite = [&](const std::string& line) {
    std::string text = before;
    text.replace(text.find("most_priority = 0"), 17, line);
    Write(config, text);
    kill(daemon.pid(), SIGHUP);
  };
  RunAlone([&](ncclComm_t alone) {
    EXPECT_NCCL(hzSetRequirements(alone, "collectives.priority = 2"));
    const auto priority = [&] {
      return GrantedTo(alone).at("values").at("collectives.priority").get<int>();
    };
    EXPECT_EQ(priority(), 0);
    rewrite("most_priority = 2\ndefaults.faults.late_after = \"20 s\"");
    EXPECT_TRUE(Eventually(20, [&] { return priority() == 2; }));
    EXPECT_EQ(GrantedTo(alone).at("values").at("faults.late_after"), "20 s");
    rewrite("most_priorty = 3");  // a mistake changes nothing
    rewrite("most_priority = 1");
    EXPECT_TRUE(Eventually(20, [&] { return priority() == 1; }));
    EXPECT_FALSE(GrantedTo(alone).at("values").contains("faults.late_after"));
  });
}

TEST(Requirements, OperatorsSetThePolicyAndTenantsSeeTheirOwn) {
  const DaemonProcess daemon;
  const std::string operators = OperatorSocketPath(daemon.socket_path());
  RunAlone([&](ncclComm_t alone) {
    EXPECT_NCCL(hzSetRequirements(alone, "collectives.priority = 3"));
    EXPECT_EQ(Put(daemon.socket_path(), "/v1/policy", "policy.most_priority = 3").first, 405);
    EXPECT_EQ(Put(operators, "/v1/policy", "policy.most_priority = 4").first, 400);
    const std::string of_me =
        "[[policy.tenant]]\ntenant = \"" + std::to_string(getuid()) + "\"\nmost_priority = 3\n";
    EXPECT_EQ(Put(operators, "/v1/policy", of_me).first, 200);
    EXPECT_EQ(GrantedTo(alone).at("values").at("collectives.priority"), 3);
    const Answer mine = Ask(daemon.socket_path(), {.target = "/v1/policy"});
    EXPECT_EQ(mine.second.at("policy").at("most_priority"), 3) << mine.second;
    EXPECT_FALSE(mine.second.contains("tenants")) << "other tenants' are not told";
    const Answer all = Ask(operators, {.target = "/v1/policy"});
    EXPECT_EQ(all.second.at("tenants").at(0).at("exists"), true) << all.second;
  });
}

// Alice has requirements; Bob, who knows the job's id, neither sees nor changes them.
TEST(Requirements, NobodySpeaksForAnotherUsersJob) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become two users";
  const DaemonProcess daemon("[policy]\nchanges_per_minute = 3\n");
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  struct Board {
    char job[64];
    std::atomic<int> step;
  };
  SharedByProcesses<Board> board;
  const auto await = [&](int step) {
    EXPECT_TRUE(Eventually(20, [&] { return board->step >= step; }));
  };
  const pid_t alice = StartAs(kAlice, [&] {
    setenv("HARMONAIZE_JOB", "of alice", 1);
    ncclComm_t alone;
    if (JoinNamed("alone", 1, 0, &alone) != ncclSuccess) return 2;
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '7 s'"));
    GrantedTo(alone).at("job").get<std::string>().copy(board->job, 63);
    board->step = 1;
    await(2);
    EXPECT_EQ(GrantedTo(alone).at("values").at("faults.late_after"), "7 s");
    // Her own changes are limited; nobody else's are, for that.
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '8 s'"));
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '9 s'"));
    EXPECT_EQ(hzSetRequirements(alone, "faults.late_after = '10 s'"), ncclInvalidUsage);
    EXPECT_MENTIONS(alone, "change too often");
    board->step = 3;
    await(4);
    return 0;
  });
  const pid_t bob = StartAs(kBob, [&] {
    setenv("HARMONAIZE_JOB", "of alice", 1);  // of the same name, and Bob's own
    ncclComm_t alone;
    if (JoinNamed("alone", 1, 0, &alone) != ncclSuccess) return 2;
    await(1);
    const std::string hers = std::string("/v1/jobs/") + board->job;
    const Answer none = Ask(daemon.socket_path(), {.target = "/v1/jobs/none/granted"});
    EXPECT_EQ(none.first, 404);
    EXPECT_EQ(Ask(daemon.socket_path(), {.target = hers + "/granted"}), none);
    EXPECT_EQ(Ask(daemon.socket_path(), {.target = hers + "/requirements"}), none);
    EXPECT_EQ(Put(daemon.socket_path(), hers + "/requirements", "job.kind = 'batch'"), none);
    EXPECT_EQ(Ask(daemon.socket_path(), {.method = "DELETE", .target = hers + "/requirements"}),
              none);
    EXPECT_EQ(Ask(daemon.socket_path(),
                  {.method = "POST", .target = hers + "/progress", .body = "{\"step\": 1}"}),
              none);
    EXPECT_EQ(GrantedTo(alone).at("text"), "");
    board->step = 2;
    await(3);
    EXPECT_NCCL(hzSetRequirements(alone, "faults.late_after = '8 s'"));
    board->step = 4;
    return 0;
  });
  EXPECT_EQ(StatusOf(alice), 0);
  EXPECT_EQ(StatusOf(bob), 0);
}

TEST(Requirements, ProgressIsToldAndStepsAreTimed) {
  const DaemonProcess daemon;
  RunAlone([&](ncclComm_t alone) {
    for (uint64_t step = 1; step <= 4; ++step) {
      hzProgress_t progress = HZ_PROGRESS_INITIALIZER;
      progress.step = step;
      progress.samples = 64.0 * static_cast<double>(step);
      progress.loss = 2.5;
      EXPECT_NCCL(hzReportProgress(alone, &progress));
      EXPECT_NCCL(hzReportProgress(alone, &progress)) << "of another rank";
    }
    const std::string job = GrantedTo(alone).at("job");
    const Answer told = Ask(daemon.socket_path(), {.target = "/v1/jobs/" + job + "/progress"});
    EXPECT_EQ(told.second.at("step"), 4) << told.second;
    EXPECT_EQ(told.second.at("samples"), 256);
    EXPECT_EQ(told.second.at("loss"), 2.5);
    EXPECT_EQ(told.second.at("accuracy"), nullptr);
    EXPECT_GT(told.second.at("step_seconds"), 0);
    EXPECT_EQ(hzReportProgress(alone, nullptr), ncclInvalidArgument);
    const hzProgress_t of_no_library = {};
    EXPECT_EQ(hzReportProgress(alone, &of_no_library), ncclInvalidArgument);
    EXPECT_EQ(hzSetJob("late", nullptr), ncclInvalidUsage);
  });
}

/// Trains for a step: computes, and exchanges so much that this takes far longer. Each backward
/// pass of `accumulation` computes.
void TrainForAStep(ncclComm_t communicator, void* gradients, double accumulation, uint64_t step) {
  constexpr size_t kGradients = 8 << 20;
  constexpr auto kPassTakes = std::chrono::milliseconds(1);
  std::this_thread::sleep_for(kPassTakes * accumulation);
  EXPECT_NCCL(
      ncclAllReduce(gradients, gradients, kGradients, ncclFloat32, ncclSum, communicator, nullptr));
  hzProgress_t progress = HZ_PROGRESS_INITIALIZER;
  progress.step = step;
  progress.accumulation = accumulation;
  EXPECT_NCCL(hzReportProgress(communicator, &progress));
}

TEST(Requirements, AJobThatWaitsForItsExchangesIsAdvised) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t trains;
    if (JoinNamed("trains", 2, rank, &trains) != ncclSuccess) return 2;
    if (rank == 0) {
      EXPECT_NCCL(hzSetRequirements(trains,
                                    "collectives.inline = false\n"
                                    "[adapt]\naccumulation = [1, 4]\n"
                                    "learning_rate_factor = [1, 2]\n"));
    }
    std::vector<float> gradients(8 << 20);
    for (uint64_t step = 1; step <= 12; ++step) TrainForAStep(trains, gradients.data(), 1, step);
    if (rank == 0) {
      const std::string job = GrantedTo(trains).at("job");
      const Answer events =
          Ask(daemon.socket_path(), {.target = "/v1/events?from=start&job=" + job});
      std::vector<json> advice;
      for (const json& event : events.second.at("events")) {
        if (event.at("type") == "io.harmonaize.adaptation.advised") advice.push_back(event);
      }
      EXPECT_EQ(advice.size(), 1u) << events.second;
      if (advice.empty()) return 3;
      const json& data = advice.front().at("data");
      EXPECT_EQ(data.at("setting"), "accumulation") << data;
      EXPECT_EQ(data.at("from"), 1);
      EXPECT_GT(data.at("to"), 1);
      EXPECT_LE(data.at("to"), 4);
      EXPECT_EQ(data.at("learning_rate_factor"), 2);
      EXPECT_EQ(data.at("why"), "long_exchanges");
      EXPECT_GT(data.at("gain"), 1.1);
      EXPECT_GT(data.at("expected").at("p50"), 0);
      const Answer told = Ask(daemon.socket_path(), {.target = "/v1/jobs/" + job + "/progress"});
      EXPECT_GT(told.second.at("exchange_seconds"), 0);
      EXPECT_EQ(told.second.at("accumulation"), 1);
    }
    EXPECT_NCCL(ncclCommDestroy(trains));
    return 0;
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(Requirements, AJobIsNamedByTheProgram) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    EXPECT_EQ(hzSetJob("two\nlines", nullptr), ncclInvalidArgument);
    EXPECT_EQ(hzSetJob(std::string(200, 'x').c_str(), nullptr), ncclInvalidArgument);
    EXPECT_EQ(hzSetJob("named", "trainig"), ncclInvalidArgument);
    EXPECT_NCCL(hzSetJob("named", "inference"));
    ncclComm_t alone;
    if (JoinNamed("alone", 1, 0, &alone) != ncclSuccess) return 2;
    const Answer job = Ask(daemon.socket_path(), {.target = "/v1/jobs/named"});
    EXPECT_EQ(job.first, 200);
    EXPECT_EQ(job.second.at("kind"), "inference") << job.second;
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>{0});
}

// ---------------------------------------------------------------------------------------------
// What follows

TEST(Requirements, LateAfterDecidesWhenARankIsToldOfAsLate) {
  // By default nobody would be told of within this test.
  const DaemonProcess daemon("[ranks]\nlate_after_seconds = 600\n");
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t pair;
    if (JoinNamed("pair", 2, rank, &pair) != ncclSuccess) return 2;
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(pair, "rank.late", nullptr, nullptr, nullptr, &events));
    EXPECT_NCCL(hzSetRequirements(pair, "faults.late_after = '200 ms'"));
    EXPECT_EQ(CountRanks(pair), 2);
    hzEvent_t event;
    // Rank 1 calls only once it has been told of as late.
    if (rank == 1) {
      EXPECT_NCCL(hzNextEvent(events, kAnsweredWithinMs, &event));
    }
    EXPECT_EQ(CountRanks(pair), 2);
    if (rank == 0) {
      EXPECT_NCCL(hzNextEvent(events, kAnsweredWithinMs, &event));
    }
    EXPECT_EQ(ReadJson(event.json).at("data").at("ranks"), json::array({1}));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Requirements, AfterGiveUpAfterAnOperationThatWaitsEnds) {
  const DaemonProcess daemon;
  struct Board {
    std::atomic<bool> given_up;
  };
  SharedByProcesses<Board> board;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t pair;
    if (JoinNamed("pair", 2, rank, &pair) != ncclSuccess) return 2;
    EXPECT_NCCL(
        hzSetRequirements(pair, "faults.late_after = '200 ms'\nfaults.give_up_after = '1 s'"));
    EXPECT_EQ(CountRanks(pair), 2);
    if (rank == 0) {
      EXPECT_EQ(AllReduce(pair, 1000), ncclRemoteError);
      EXPECT_MENTIONS(pair, "faults.give_up_after");
      board->given_up = true;
    } else {
      EXPECT_TRUE(Eventually(20, [&] { return board->given_up.load(); }));
      EXPECT_EQ(AllReduce(pair, 1000), ncclRemoteError);
    }
    EXPECT_NCCL(ncclCommAbort(pair));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Requirements, OnRankLossShrinkTheOtherRanksShrinkWithoutAnAbort) {
  const DaemonProcess daemon;
  struct Board {
    std::atomic<int> ready;
  };
  SharedByProcesses<Board> board;
  const std::vector<int> statuses = RunAsProcesses(3, [&](int rank) {
    ncclComm_t all;
    if (JoinNamed("three", 3, rank, &all) != ncclSuccess) return 2;
    EXPECT_NCCL(hzSetRequirements(all, "faults.on_rank_loss = 'shrink'"));
    EXPECT_EQ(CountRanks(all), 3);
    ++board->ready;
    EXPECT_TRUE(Eventually(20, [&] { return board->ready == 3; }));
    if (rank == 1) _exit(0);
    EXPECT_EQ(AllReduce(all, 1000), ncclRemoteError);
    EXPECT_MENTIONS(all, "rank 1");
    int lost = 1;
    ncclComm_t left = nullptr;
    EXPECT_NCCL(ncclCommShrink(all, &lost, 1, &left, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(CountRanks(left), 2);
    EXPECT_NCCL(ncclCommDestroy(left));
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Requirements, ADeadlineThatIsMissedIsToldAndSoIsThatItIsKeptAgain) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t pair;
    if (JoinNamed("pair", 2, rank, &pair) != ncclSuccess) return 2;
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(pair, "requirement.*", nullptr, nullptr, nullptr, &events));
    // The daemon times what it carries out; a microsecond is too little for any of it.
    EXPECT_NCCL(hzSetRequirements(pair, "collectives = {inline = false, deadline_us = 1}"));
    const auto until_told = [&](const std::string& type) {
      hzEvent_t event{};
      float told = 0;
      for (int i = 0; i < 1000 && told == 0; ++i) {
        for (int j = 0; j < 20; ++j) EXPECT_EQ(CountRanks(pair), 2);
        // The ranks leave the loop together.
        told = rank == 0 && hzNextEvent(events, 0, &event) == ncclSuccess ? 1 : 0;
        EXPECT_NCCL(ncclAllReduce(&told, &told, 1, ncclFloat, ncclMax, pair, nullptr));
      }
      EXPECT_EQ(told, 1);
      if (rank != 0 || told == 0) return;
      const json heard = ReadJson(event.json);
      EXPECT_EQ(heard.at("type"), "io.harmonaize." + type);
      EXPECT_EQ(heard.at("data").at("requirement"), "deadline_us");
      EXPECT_EQ(heard.at("data").at("unit"), "seconds");
    };
    until_told("requirement.unmet");
    EXPECT_NCCL(hzSetRequirements(pair, "collectives.deadline_us = 60000000"));
    until_told("requirement.met");
    const std::string job = GrantedTo(pair).at("job");
    const Answer told = Ask(daemon.socket_path(), {.target = "/v1/jobs/" + job});
    EXPECT_GE(told.second.at("communicators").at(0).at("deadline").at("missed"), 1) << told.second;
    EXPECT_EQ(CountRanks(pair), 2);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Requirements, InlineFalseSendsAllOperationsToTheDaemon) {
  const DaemonProcess daemon;
  const auto inline_operations = [&] {
    const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
    EXPECT_TRUE(status.ok()) << status.status().message();
    const json document = ReadJson(*status);
    const json& communicator = document.at("tenants").at(0).at("communicators").at(0);
    return communicator.at("inline_operations").get<uint64_t>();
  };
  RunAsThreads(2, [&](int rank, ncclComm_t pair) {
    // One at a time, since neither rank may look for the other meanwhile.
    const auto say = [&](const char* text) {
      if (rank == 0) {
        EXPECT_NCCL(hzSetRequirements(pair, text));
      }
      EXPECT_EQ(CountRanks(pair), 2);
      EXPECT_EQ(CountRanks(pair), 2);
    };
    say("collectives.inline = false");
    const uint64_t before = inline_operations();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(CountRanks(pair), 2);
    EXPECT_EQ(inline_operations(), before);
    say("collectives.inline = true");
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(CountRanks(pair), 2);
    EXPECT_GT(inline_operations(), before) << "of a thousand some go inline on any machine";
  });
}

}  // namespace
}  // namespace harmonaize::testing
