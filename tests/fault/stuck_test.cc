// What programs and people are told of ranks that hang: events, HTTP and the command line, on one
// host and on three. hang_test is about the diagnosis itself.

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_http.h"
#include "src/base/json_text.h"
#include "src/ipc/http_client.h"
#include "src/ipc/http_socket.h"
#include "tests/integration/command_line.h"
#include "tests/support/hosts_case.h"
#include "tests/support/overlapping_communicators.h"
#include "tests/support/text_checks.h"
#include "tests/support/three_ranks_case.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Time within which a verdict has certainly come.
constexpr double kPatience = kSanitized ? 60 : 15;

class StuckTest : public ThreeRanksTest {
 protected:
  static std::set<int> Hosts() { return {GetParam().begin(), GetParam().end()}; }
  static std::string SocketOf(int host) { return cluster_->daemon(host).socket_path(); }
  /// The name of this test's job, which no other test has.
  static std::string JobName() {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test.name()) + "." + std::to_string(test_process_);
  }

  /// Asks a host's daemon. As an operator, or as the tenant that this process is.
  static json Ask(int host, const std::string& target, bool as_tenant = false) {
    const std::string socket = SocketOf(host);
    Result<DaemonHttp> daemon = FindHttp(socket);
    EXPECT_TRUE(daemon.ok()) << daemon.status().message();
    if (!daemon.ok()) return nullptr;
    if (as_tenant) daemon = DaemonHttp{.place = {.path = socket, .named = true}};
    const Result<std::string> text = CallDaemon(*daemon, {.target = target});
    EXPECT_TRUE(text.ok()) << target << ": " << text.status().message();
    return text.ok() ? ReadJson(*text) : json();
  }
  /// This test's verdicts at a host.
  static json Verdicts(int host) {
    json mine = json::array();
    const json stuck = Ask(host, "/v1/stuck");
    for (const json& verdict : stuck.value("verdicts", json::array())) {
      if (verdict.at("job_name") == JobName()) mine.push_back(verdict);
    }
    return mine;
  }
  /// This test's events of a type at a host.
  static std::vector<json> Events(int host, const std::string& type) {
    std::vector<json> mine;
    const json jobs = Ask(host, "/v1/jobs");
    for (const json& job : jobs.at("jobs")) {
      if (job.at("name") != JobName()) continue;
      const std::string target =
          "/v1/events?from=start&types=" + type + "&job=" + job.at("id").get<std::string>();
      // Operators have a log of their own.
      const json page = Ask(host, target, true);
      for (const json& event : page.at("events")) mine.push_back(event);
    }
    return mine;
  }
  /// Returns the verdict at a host as soon as it is of this class; what there is, if none comes.
  static json AwaitVerdict(int host, const std::string& hang) {
    json last;
    const bool came = Eventually(kPatience, [&] {
      last = Verdicts(host);
      return last.size() == 1 && last.at(0).at("class") == hang;
    });
    EXPECT_TRUE(came) << "host " << host << ": " << JsonText(last, 1);
    return came ? last.at(0) : json();
  }
  static std::vector<json> AwaitEvents(int host, const std::string& type, size_t count) {
    std::vector<json> events;
    EXPECT_TRUE(Eventually(kPatience,
                           [&] {
                             events = Events(host, type);
                             return events.size() >= count;
                           }))
        << "host " << host << ": " << JsonText(json(events), 1);
    EXPECT_EQ(events.size(), count) << JsonText(json(events), 1);
    return events;
  }
  /// On a busy machine a rank may have been late before.
  static void ExpectNoneLateAfter(int host, const std::vector<json>& events) {
    ASSERT_FALSE(events.empty());
    for (const json& late : Events(host, "rank.late")) {
      EXPECT_LT(late.at("sequence").get<std::string>(),
                events.front().at("sequence").get<std::string>());
    }
  }
  void SetUp() override { test_process_ = getpid(); }

  /// Starts three ranks of this test's job.
  static void Start(HostedRanks* ranks,
                    const std::function<void(int rank, ncclComm_t world)>& body) {
    ThreeRanksTest::Start(ranks, body, JobName());
  }

  inline static pid_t test_process_ = 0;
};

Ended RunPython(std::vector<std::string> words) {
  const Environment environment = TestEnvironment();
  return EndOf(Launched(std::move(words), "/usr/bin/python3", &environment));
}

INSTANTIATE_THREE_RANKS(StuckTest);

TEST_P(StuckTest, AStoppedRankIsToldByEventHttpAndCommandAtEachHost) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    if (rank == 1) raise(SIGSTOP);
    EXPECT_EQ(AllReduce(world, 8), ncclSuccess);
    // A host without ranks of the job hears of it no more.
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  ExpectStopped(ranks.process(1));
  std::set<std::string> late_ids;
  for (const int host : Hosts()) {
    const json verdict = AwaitVerdict(host, "not_called");
    ASSERT_FALSE(verdict.is_null());
    EXPECT_EQ(verdict.at("doing"), "stopped");
    EXPECT_EQ(verdict.at("ranks"), json::array({1}));
    EXPECT_EQ(verdict.at("roots").size(), 1u);
    EXPECT_EQ(verdict.at("operation").at("name"), Second());
    EXPECT_EQ(verdict.at("operation").at("sequence"), OneHost() ? 0 : 1);
    EXPECT_EQ(verdict.at("way_out"), "let it go on with SIGCONT, or end it");
    EXPECT_GE(verdict.at("for_seconds").get<double>(), 0.9);
    // The tenant reads the same, and nothing of hosts and processes.
    const std::string job = verdict.at("job");
    const json as_tenant = Ask(host, "/v1/jobs/" + job + "/stuck", true);
    ASSERT_EQ(as_tenant.at("verdicts").size(), 1u);
    EXPECT_EQ(as_tenant.at("verdicts").at(0).at("doing"), "stopped");
    EXPECT_FALSE(as_tenant.at("verdicts").at(0).contains("tenant"));
    for (const std::string& hidden :
         {std::to_string(ranks.process(1)), std::string("127.0.0."), std::string("process")}) {
      EXPECT_EQ(JsonText(as_tenant).find(hidden), std::string::npos) << as_tenant;
    }
    EXPECT_EQ(Ask(host, "/v1/jobs/" + job, true).at("stuck").size(), 1u);

    const Result<std::string> all =
        CallDaemon({.place = {.path = SocketOf(host), .named = true}}, {.target = "/v1/stuck"});
    EXPECT_FALSE(all.ok()) << "operators alone see all jobs";

    const Ended shown = RunCommand({"status", "--stuck"}, SocketOf(host));
    EXPECT_EQ(shown.status, 0) << shown.error;
    EXPECT_EQ(LinesLike(shown.output, JobName() + " +[0-9a-f]{8} +" + Second() +
                                          " +1 +not_called +stopped +[0-9]+ s +let it go on .*"),
              1)
        << shown.output;
    const Ended document = RunCommand({"status", "--stuck", "--json"}, SocketOf(host));
    EXPECT_EQ(ReadJson(document.output).at("verdicts").size(), 1u) << document.output;

    const std::vector<json> late = AwaitEvents(host, "rank.late", 1);
    ASSERT_EQ(late.size(), 1u);
    late_ids.insert(late[0].at("id").get<std::string>());
    EXPECT_EQ(late[0].at("subject"), "ranks/1");
    EXPECT_EQ(late[0].at("severitytext"), "WARN");
    const json& data = late[0].at("data");
    EXPECT_EQ(data.at("class"), "not_called");
    EXPECT_EQ(data.at("doing"), "stopped");
    EXPECT_EQ(data.at("why"), "stopped");
    EXPECT_EQ(data.at("operation"), Second());
    EXPECT_EQ(data.at("ranks"), json::array({1}));
    EXPECT_FALSE(data.contains("root_communicator"));
    EXPECT_FALSE(data.contains("stage"));
  }
  EXPECT_EQ(late_ids.size(), 1u) << "all hosts hear of the same event";
  kill(ranks.process(1), SIGCONT);
  for (const int host : Hosts()) {
    const std::vector<json> recovered = AwaitEvents(host, "rank.recovered", 1);
    ASSERT_EQ(recovered.size(), 1u);
    EXPECT_EQ(recovered[0].at("data").at("ranks"), json::array({1}));
    EXPECT_GE(recovered[0].at("data").at("for_seconds").get<double>(), 0.9);
    EXPECT_TRUE(Eventually(kPatience, [&] {
      return RunCommand({"status", "--stuck"}, SocketOf(host)).output == "nothing hangs\n";
    }));
  }
  Release(ranks);
  ExpectAllEndWell(&ranks);
  for (const int host : Hosts()) {
    EXPECT_EQ(Events(host, "rank.late").size(), 1u);
    EXPECT_EQ(Events(host, "rank.recovered").size(), 1u) << "a job that ends recovers from nothing";
  }
}

// The home of what forms knows who has not come; the others hear of it once all have.
TEST_P(StuckTest, ARankThatDoesNotJoinIsToldBeforeThereIsACommunicator) {
  HostedRanks ranks(cluster_, GetParam());
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", JobName().c_str(), 1);
    if (rank == 1) AwaitRelease(ranks);
    const ncclComm_t world = ranks.Join(rank);
    ranks.ShareId(2, false);
    EXPECT_NCCL(ncclCommDestroy(world));
    return 0;
  });
  const int home = GetParam().front();
  const json verdict = AwaitVerdict(home, "not_called");
  ASSERT_FALSE(verdict.is_null());
  EXPECT_TRUE(verdict.at("communicator").is_null());
  EXPECT_EQ(verdict.at("operation"), (json{{"name", "ncclCommInitRank"}}));
  EXPECT_EQ(verdict.at("ranks"), json::array({1}));
  EXPECT_EQ(verdict.at("fault"), true);
  EXPECT_GE(verdict.at("for_seconds").get<double>(), 0.9);
  const std::string job = verdict.at("job");
  EXPECT_EQ(Ask(home, "/v1/jobs/" + job + "/stuck", true).at("verdicts").size(), 1u);
  const json details = Ask(home, "/v1/jobs/" + job, true);
  EXPECT_EQ(details.at("communicators"), json::array());
  EXPECT_TRUE(details.at("ended").is_null());
  ASSERT_EQ(details.at("forming").size(), 1u);
  EXPECT_EQ(details.at("forming")[0].at("size"), 3);
  EXPECT_EQ(details.at("forming")[0].at("missing_ranks"), json::array({1}));
  EXPECT_EQ(JsonText(details).find("127.0.0."), std::string::npos) << details;
  EXPECT_EQ(LinesLike(RunCommand({"status", "--stuck"}, SocketOf(home)).output,
                      JobName() + " +forming +ncclCommInitRank +1 +not_called +unknown .*"),
            1);
  const std::string waits =
      " *forms, with 2 of 3 ranks so far: ncclCommInitRank has waited .* s "
      "for rank 1";
  EXPECT_EQ(LinesLike(RunCommand({"jobs"}, SocketOf(home)).output, waits), 1);
  EXPECT_EQ(LinesLike(RunCommand({"jobs", JobName()}, SocketOf(home)).output, waits), 1);
  const std::vector<json> late = AwaitEvents(home, "rank.late", 1);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].at("subject"), "ranks/1");
  EXPECT_EQ(late[0].at("data").at("operation"), "ncclCommInitRank");
  EXPECT_EQ(late[0].at("data").at("class"), "not_called");
  Release(ranks);
  for (const int host : Hosts()) {
    const std::vector<json> recovered = AwaitEvents(host, "rank.recovered", 1);
    ASSERT_EQ(recovered.size(), 1u);
    EXPECT_EQ(recovered[0].at("data").at("ranks"), json::array({1}));
    EXPECT_EQ(recovered[0].at("data").at("operation"), "ncclCommInitRank");
  }
  EXPECT_TRUE(Eventually(kPatience, [&] {
    return Ask(home, "/v1/jobs/" + job, true).at("forming").empty() && Verdicts(home).empty();
  }));
  ranks.PublishId(2, {});
  ExpectAllEndWell(&ranks);
}

TEST_P(StuckTest, WhatFailsToFormRecoversFromNothing) {
  HostedRanks ranks(cluster_, GetParam());
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", JobName().c_str(), 1);
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    if (rank == 1) {
      AwaitRelease(ranks);
      return 0;
    }
    ncclComm_t world = nullptr;
    EXPECT_EQ(ncclCommInitRank(&world, 3, id, rank), ncclRemoteError);
    return 0;
  });
  const int home = GetParam().front();
  AwaitEvents(home, "rank.late", 1);
  ASSERT_TRUE(Eventually(kPatience, [&] { return Verdicts(home).size() == 1; }));
  const std::string job = Verdicts(home).at(0).at("job");
  kill(ranks.process(2), SIGKILL);
  EXPECT_TRUE(Eventually(
      kPatience, [&] { return Ask(home, "/v1/jobs/" + job, true).at("ended").is_string(); }));
  EXPECT_TRUE(Eventually(kPatience, [&] { return Verdicts(home).empty(); }));
  Release(ranks);
  EXPECT_EQ(ranks.Wait().front(), 0);
  EXPECT_EQ(Events(home, "rank.recovered").size(), 0u);
}

// The rank that ends after a disagreement is not what went wrong first.
TEST_P(StuckTest, ADisagreementIsWhatRanksReadAfterOneOfThemHasEnded) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    EXPECT_EQ(AllReduce(world, rank == 1 ? 16 : 8), ncclInvalidUsage);
    if (rank == 1) std::exit(0);
    EXPECT_TRUE(Eventually(kPatience, [&] {
      return std::string(ncclGetLastError(world)).find("then rank 1") != std::string::npos;
    })) << ncclGetLastError(world);
    EXPECT_EQ(AllReduce(world, 8), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(world)).find("16 x float32"), std::string::npos)
        << ncclGetLastError(world);
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommAbort(world));
  });
  for (const int host : {GetParam()[0], GetParam()[2]}) {
    const std::vector<json> lost = AwaitEvents(host, "rank.lost", 1);
    ASSERT_EQ(lost.size(), 1u);
    const json& data = lost[0].at("data");
    EXPECT_EQ(data.at("ranks"), json::array({1}));
    EXPECT_EQ(data.at("why"), "exited");
    EXPECT_EQ(data.at("follows"), true);
    EXPECT_EQ(lost[0].at("severitytext"), "INFO");
    ExpectHolds(data.at("text").get<std::string>(), ", after the communicator had failed");
    EXPECT_FALSE(AwaitVerdict(host, "mismatch").is_null());
  }
  Release(ranks);
  ExpectAllEndWell(&ranks);
}

// Survivors that end since one rank was killed are told as such.
TEST_P(StuckTest, ARankThatEndsAfterAnotherWasKilledFollowsIt) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(300));
      raise(SIGKILL);
    }
    EXPECT_EQ(AllReduce(world, 8), ncclRemoteError);
    if (rank == 2) raise(SIGKILL);
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommAbort(world));
  });
  const std::vector<json> lost = AwaitEvents(GetParam()[2], "rank.lost", 2);
  ASSERT_EQ(lost.size(), 2u);
  for (const json& one : lost) {
    const bool follows = one.at("data").at("ranks") == json::array({2});
    EXPECT_EQ(one.at("data").at("follows"), follows) << one;
    EXPECT_EQ(one.at("severitytext"), follows ? "INFO" : "ERROR") << one;
  }
  EXPECT_EQ(AwaitVerdict(GetParam()[0], "dead").at("ranks"), json::array({1}));
  Release(ranks);
  EXPECT_EQ(ranks.Wait().front(), 0);
}

// In a folder that another user has made, links could lead to any file.
void ExpectStrangersFoldersRefused(const std::string& folder, const std::string& id,
                                   const std::string& socket) {
  if (geteuid() != 0) return;
  constexpr uid_t kStranger = 64001;
  namespace fs = std::filesystem;
  const std::string target = folder + "/target";
  std::ofstream(target) << "precious";
  const std::string shared = folder + "/shared";
  for (const std::string& made : {shared, shared + "/" + id}) {
    fs::remove_all(made);
    ASSERT_TRUE(fs::create_directory(made));
  }
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  ASSERT_EQ(chown((shared + "/" + id).c_str(), kStranger, kStranger), 0);
  for (int rank = 0; rank < 3; ++rank) {
    fs::create_symlink(target, fmt::format("{}/{}/nccl_trace_rank_{}", shared, id, rank));
  }
  // Nor is anything made behind one.
  const std::string theirs = folder + "/theirs";
  fs::create_directory(theirs);
  ASSERT_EQ(chown(theirs.c_str(), kStranger, kStranger), 0);
  if (!fs::is_symlink(theirs + "/way")) fs::create_directory_symlink(folder, theirs + "/way");
  const Ended behind =
      RunCommand({"status", "--flight-recorder", theirs + "/way/made/deep"}, socket);
  EXPECT_EQ(behind.status, 1);
  ExpectHolds(behind.error, "is not made behind one of another user");
  const Ended last = RunCommand({"status", "--flight-recorder", theirs + "/way/made"}, socket);
  EXPECT_EQ(last.status, 1);
  ExpectHolds(last.error, "lies behind a folder of another user");
  EXPECT_FALSE(fs::exists(folder + "/made"));
  const Ended within = RunCommand({"status", "--flight-recorder", shared}, socket);
  EXPECT_EQ(within.status, 1);
  ExpectHolds(within.error, "another user's");
  const Ended there = RunCommand({"status", "--flight-recorder", shared + "/" + id}, socket);
  EXPECT_EQ(there.status, 1);
  ExpectHolds(there.error, "another user's folder");
  std::ifstream file(target);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "precious");
}

// Rank 1 is behind in the files and in the counts, and the daemons of other hosts have no more than
// their own ranks.
TEST_P(StuckTest, ThePartsOfAJobAreWrittenForPyTorchAndNccl) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    if (rank == 1) raise(SIGSTOP);
    EXPECT_EQ(AllReduce(world, 8), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  ExpectStopped(ranks.process(1));
  const uint64_t posted = OneHost() ? 0 : 1;  // by rank 1
  AwaitVerdict(GetParam()[0], "not_called");
  char folder[] = "/tmp/harmonaize-flight-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  // The analyzer wants a folder of pickles alone.
  const std::string texts = std::string(folder) + "/a/whole/path/json";
  const std::string pickles = std::string(folder) + "/pickles";
  std::string id;
  for (const int host : Hosts()) {
    const json job = Ask(host, "/v1/stuck").at("verdicts");
    for (const json& verdict : job) {
      if (verdict.at("job_name") == JobName()) id = verdict.at("communicator");
    }
    const Ended wrote =
        RunCommand({"status", "--flight-recorder", texts, "--json"}, SocketOf(host));
    EXPECT_EQ(wrote.status, 0) << wrote.error;
    EXPECT_EQ(LinesLike(wrote.output, id + " +- +" + texts + "/" + id + " +[13] +3"), 1)
        << wrote.output;
    EXPECT_EQ(RunCommand({"status", "--flight-recorder", pickles}, SocketOf(host)).status, 0);
    ExpectStrangersFoldersRefused(folder, id, SocketOf(host));

    const Ended ras = RunCommand({"status", "--ras"}, SocketOf(host));
    EXPECT_EQ(ras.status, 0) << ras.error;
    const json document = ReadJson(ras.output);
    for (const json& communicator : document.at("communicators")) {
      if (communicator.at("hash") != "0x" + id) continue;
      for (const json& rank : communicator.at("ranks")) {
        EXPECT_EQ(rank.at("collective_counts").at("AllReduce"),
                  posted + (rank.at("rank") == 1 ? 0 : 1));
      }
      EXPECT_EQ(communicator.at("ranks").size() + communicator.at("missing_ranks").size(), 3u);
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    const std::string name = fmt::format("/{}/nccl_trace_rank_{}", id, rank);
    std::ifstream file(texts + name + ".json");
    const json dump = json::parse(file);
    EXPECT_EQ(dump.at("pg_config").at(id).at("ranks"), "[0, 1, 2]");
    EXPECT_EQ(dump.at("pg_status").at("0").at("last_completed_collective"), posted);
    EXPECT_EQ(dump.at("entries").size(), rank == 1 ? 0u : 1u) << rank;
    if (rank == 1) continue;
    const json& entry = dump.at("entries").at(0);
    EXPECT_EQ(entry.at("profiling_name"), "nccl:all_reduce");
    // A host has begun it as soon as all of its own ranks have posted it.
    EXPECT_EQ(entry.at("state"), OneHost() ? "scheduled" : "started");
    EXPECT_EQ(entry.at("collective_seq_id"), posted + 1);
    EXPECT_EQ(entry.at("input_sizes"), ReadJson("[[8]]"));
    // Python reads the other form, and finds the same.
    const std::string script =
        "import json, pickle, sys\n"
        "a = pickle.load(open(sys.argv[1], 'rb'))\n"
        "b = json.load(open(sys.argv[2]))\n"
        "sys.exit(0 if a['pg_config'] == b['pg_config'] and a['pg_status'] == b['pg_status'] and\n"
        "  [e['profiling_name'] for e in a['entries']] == ['nccl:all_reduce'] else 1)\n";
    const Ended python = RunPython({"-c", script, pickles + name, texts + name + ".json"});
    EXPECT_EQ(python.status, 0) << python.error;
  }
  if (RunPython({"-c", "import torch.distributed.flight_recorder.fr_trace"}).status == 0) {
    const Ended said =
        RunPython({"-m", "torch.distributed.flight_recorder.fr_trace", pickles + "/" + id});
    ExpectHolds(said.output + said.error, "missing ranks: {1}");
  }
  kill(ranks.process(1), SIGCONT);
  ExpectAllEndWell(&ranks);
  std::filesystem::remove_all(folder);
}

TEST_P(StuckTest, ARankThatComputesIsNoFault) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    const auto start = steady_clock::now();
    while (rank == 1 && SecondsSince(start) < (kSanitized ? 9 : 4)) {
    }
    EXPECT_EQ(AllReduce(world, 8), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  const json verdict = AwaitVerdict(0, "computing");
  ASSERT_FALSE(verdict.is_null());
  EXPECT_EQ(verdict.at("fault"), false);
  for (const int host : Hosts()) {
    const std::vector<json> late = AwaitEvents(host, "rank.late", 1);
    ASSERT_EQ(late.size(), 1u);
    EXPECT_EQ(late[0].at("severitytext"), "INFO");
    EXPECT_EQ(late[0].at("data").at("class"), "computing");
  }
  ExpectAllEndWell(&ranks);
}

TEST_P(StuckTest, AKilledRankIsToldAsLostAndNotAsLate) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    if (rank == 1) {
      // Once the others have heard of the end of the first operation.
      std::this_thread::sleep_for(milliseconds(300));
      raise(SIGKILL);
    }
    EXPECT_EQ(AllReduce(world, 8), ncclRemoteError);
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommAbort(world));
  });
  for (const int host : {GetParam()[0], GetParam()[2]}) {
    const json verdict = AwaitVerdict(host, "dead");
    ASSERT_FALSE(verdict.is_null());
    EXPECT_EQ(verdict.at("ranks"), json::array({1}));
    EXPECT_EQ(verdict.at("doing"), "ended");
    const Ended shown = RunCommand({"status", "--stuck"}, SocketOf(host));
    EXPECT_EQ(LinesLike(shown.output, JobName() + " .* 1 +dead +ended .*ncclCommShrink.*"), 1)
        << shown.output;
    const std::vector<json> lost = AwaitEvents(host, "rank.lost", 1);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].at("data").at("why"), "killed");
    EXPECT_EQ(lost[0].at("data").at("follows"), false);
    EXPECT_EQ(lost[0].at("severitytext"), "ERROR");
    ExpectNoneLateAfter(host, lost);
  }
  Release(ranks);
  const std::vector<int> statuses = ranks.Wait();
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
  for (const int host : Hosts()) EXPECT_EQ(Events(host, "rank.recovered").size(), 0u);
}

TEST_P(StuckTest, RanksThatDisagreeAreShownWithWhatTheyAskedFor) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    EXPECT_EQ(AllReduce(world, rank == 1 ? 9 : 8), ncclInvalidUsage);
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommAbort(world));
  });
  for (const int host : Hosts()) {
    const json verdict = AwaitVerdict(host, "mismatch");
    ASSERT_FALSE(verdict.is_null());
    ExpectHolds(verdict.at("text").get<std::string>(), "9 x float32");
    ExpectNoneLateAfter(host, AwaitEvents(host, "mismatch.detected", 1));
  }
  Release(ranks);
  ExpectAllEndWell(&ranks);
}

// Rank 0 waits for rank 1, which waits in another communicator for rank 2, which is stopped.
TEST_P(StuckTest, ACauseInAnotherCommunicatorIsNamed) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [](int rank, ncclComm_t world) {
    const OverlappingCommunicators both(world, rank);
    const auto [first, last] = both;
    if (rank == 2) raise(SIGSTOP);
    if (last != nullptr) {
      EXPECT_EQ(AllReduce(last, 8), ncclSuccess);
    }
    if (first != nullptr) {
      EXPECT_EQ(AllReduce(first, 8), ncclSuccess);
    }
    both.DestroyWith(world);
  });
  ExpectStopped(ranks.process(2));
  const int host_of_first = GetParam()[0];
  json first;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    for (const json& verdict : Verdicts(host_of_first)) {
      if (verdict.at("communicator_name") != "first") continue;
      first = verdict;
      return verdict.at("roots").at(0).at("communicator") == "last";
    }
    return false;
  })) << JsonText(first, 1);
  EXPECT_EQ(first.at("ranks"), json::array({1})) << first;
  EXPECT_EQ(first.at("roots").at(0).at("rank"), 1) << "rank 2 of the job is rank 1 of 'last'";
  const Ended shown = RunCommand({"status", "--stuck"}, SocketOf(host_of_first));
  EXPECT_EQ(LinesLike(shown.output, JobName() + " +first +AllReduce #0 +1 of last +.*"), 1)
      << shown.output;
  bool told = false;
  EXPECT_TRUE(Eventually(kPatience, [&] {
    for (const json& event : Events(host_of_first, "rank.late")) {
      const json& data = event.at("data");
      if (data.at("communicator") != "first" || !data.contains("root_communicator")) continue;
      told = data.at("root_communicator") == "last" && data.at("root_ranks") == json::array({1}) &&
             data.at("ranks") == json::array({1});
    }
    return told;
  })) << json(Events(host_of_first, "rank.late"));
  kill(ranks.process(2), SIGCONT);
  ExpectAllEndWell(&ranks);
}

TEST_P(StuckTest, WhileTheHomeDoesNotAnswerEachOtherHostTellsItsOwnRanks) {
  if (OneHost()) GTEST_SKIP() << "there is one daemon";
  const pid_t home = cluster_->daemon(0).pid();
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int, ncclComm_t world) {
    EXPECT_EQ(CountRanks(world), 3);
    AwaitRelease(ranks);
    EXPECT_EQ(AllReduce(world, 8), ncclSuccess) << ncclGetLastError(world);
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  std::this_thread::sleep_for(milliseconds(1000));
  kill(home, SIGSTOP);
  ExpectStopped(home);
  Release(ranks);
  for (const int host : {1, 2}) {
    const json verdict = AwaitVerdict(host, "daemon_unreachable");
    ASSERT_FALSE(verdict.is_null());
    EXPECT_EQ(verdict.at("ranks"), json::array({0}));
    const std::vector<json> late = AwaitEvents(host, "rank.late", 1);
    ASSERT_EQ(late.size(), 1u);
    EXPECT_EQ(late[0].at("data").at("class"), "daemon_unreachable");
  }
  kill(home, SIGCONT);
  ExpectAllEndWell(&ranks);
}

}  // namespace
}  // namespace harmonaize::testing
