// The daemon's answers to NCCL's RAS clients, about live jobs of several users.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "nccl.h"
#include "src/base/file_descriptor.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/other_users.h"
#include "tests/support/ras_client.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Collectives go by the daemon, which then counts them for each rank.
constexpr char kConfig[] =
    "[ras]\nlisten = \"127.0.0.1:0\"\n[inline]\nenabled = false\n[ranks]\nlate_after_seconds = "
    "0.2\n";

uint16_t RasPortOf(const DaemonProcess& daemon) {
  const std::string before = "NCCL's RAS clients are answered at 127.0.0.1:";
  EXPECT_TRUE(daemon.WaitForLog(before));
  const std::string log = daemon.Log();
  const size_t found = log.find(before);
  return found == std::string::npos
             ? 0
             : static_cast<uint16_t>(std::atoi(log.c_str() + found + before.size()));
}

/// A job of two ranks, each a process of the user's, that do what they are told.
class TwoRanks {
 public:
  explicit TwoRanks(uid_t user, const std::string& name = "job") {
    int ids[2];
    EXPECT_EQ(pipe2(ids, O_CLOEXEC), 0);
    for (int rank = 0; rank < 2; ++rank) {
      int orders[2];
      EXPECT_EQ(pipe2(orders, O_CLOEXEC), 0);
      const FileDescriptor hears(orders[0]);
      orders_[static_cast<size_t>(rank)] = FileDescriptor(orders[1]);
      processes_[static_cast<size_t>(rank)] = StartAs(user, [&] {
        setenv("HARMONAIZE_JOB_NAME", name.c_str(), 1);
        // It keeps no end of the pipes of others, whose close tells that the test has ended.
        for (FileDescriptor& order : orders_) order.Reset();
        return Run(rank, rank == 0 ? ids[1] : ids[0], hears.get());
      });
    }
    close(ids[0]);
    close(ids[1]);
  }
  ~TwoRanks() {
    for (FileDescriptor& order : orders_) order.Reset();
    for (const pid_t process : processes_) {
      if (process > 0) StatusOf(process);
    }
  }

  /// Has a rank begin an all-reduce.
  void AllReduce(int rank) { Tell(rank, 'a'); }
  /// Ends a rank's process as a crash would.
  void Kill(int rank) {
    kill(processes_[static_cast<size_t>(rank)], SIGKILL);
    StatusOf(std::exchange(processes_[static_cast<size_t>(rank)], -1));
  }
  pid_t process(int rank) const { return processes_[static_cast<size_t>(rank)]; }

 private:
  void Tell(int rank, char order) {
    EXPECT_EQ(write(orders_[static_cast<size_t>(rank)].get(), &order, 1), 1);
  }

  static int Run(int rank, int ids, int orders) {
    ncclUniqueId id;
    if (rank == 0) {
      if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
      if (write(ids, &id, sizeof id) != sizeof id) return 1;
    } else if (read(ids, &id, sizeof id) != sizeof id) {
      return 1;
    }
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 1;
    float in = 1;
    float out = 0;
    for (char order = 0; read(orders, &order, 1) == 1;) {
      // The other rank may be gone.
      static_cast<void>(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, nullptr));
    }
    _exit(0);
  }

  std::array<FileDescriptor, 2> orders_;
  std::array<pid_t, 2> processes_ = {-1, -1};
};

json JsonOf(uint16_t port) {
  const json answer = ReadJson(AskRas(port, false, "json"));
  EXPECT_FALSE(answer.is_discarded());
  return answer;
}

/// Asks until an answer has the text, and returns the last one.
std::string AnswerWith(uint16_t port, const std::string& text) {
  std::string answer;
  EXPECT_TRUE(Eventually(60,
                         [&] {
                           answer = AskRas(port);
                           return answer.find(text) != std::string::npos;
                         }))
      << "without \"" << text << "\":\n"
      << answer;
  return answer;
}

TEST(Ras, IsOffUnlessTheProviderWantsIt) {
  const DaemonProcess daemon("", true);
  EXPECT_EQ(daemon.Log().find("RAS"), std::string::npos);
}

TEST(Ras, TellsOfALateRankAndOfALostOne) {
  const DaemonProcess daemon(kConfig, true);
  const uint16_t port = RasPortOf(daemon);
  EXPECT_NE(AskRas(port).find("No communicator data collected!\n"), std::string::npos);
  TwoRanks job(geteuid());
  const std::string ready = AnswerWith(port, "   RUNNING      OK\n");
  EXPECT_NE(ready.find("      1          2            1          2        2\n"), std::string::npos)
      << ready;

  job.AllReduce(0);
  const std::string late = AnswerWith(port, "launched up to operation 1");
  EXPECT_NE(late.find("   RUNNING  MISMATCH\n"), std::string::npos) << late;
  EXPECT_NE(late.find("Communicator ranks have different AllReduce operation counts\n"),
            std::string::npos)
      << late;
  EXPECT_NE(late.find("  Rank 1 has not launched any operations -- GPU 0 managed by process " +
                      std::to_string(job.process(1)) + " on node localhost\n"),
            std::string::npos)
      << late;
  EXPECT_NE(AskRas(port, true).find("AllReduce #0 waits since"), std::string::npos);
  const json in_json = JsonOf(port);
  ASSERT_EQ(in_json["communicators_count"], 1);
  const json& ranks = in_json["communicators"][0]["ranks"];
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0]["collective_counts"]["AllReduce"], 1);
  EXPECT_EQ(ranks[1]["collective_counts"]["AllReduce"], 0);
  EXPECT_EQ(ranks[1]["pid"], job.process(1));

  job.AllReduce(1);
  AnswerWith(port, "   RUNNING      OK\n");
  job.Kill(1);
  const std::string lost = AnswerWith(port, "INCOMPLETE,ERROR");
  EXPECT_NE(lost.find("  The missing rank: 1\n"), std::string::npos) << lost;
  EXPECT_NE(lost.find("Rank 0 reported Remote process error"), std::string::npos) << lost;
  const json after = JsonOf(port);
  const json& communicator = after["communicators"][0];
  EXPECT_EQ(communicator["ranks"][0]["status"]["async_error"], 6);
  EXPECT_EQ(communicator["missing_ranks"][0]["rank"], 1);
  EXPECT_EQ(communicator["missing_ranks"][0]["status"]["considered_dead"], true);
}

TEST(Ras, StreamsEventsToWhoWatches) {
  const DaemonProcess daemon(kConfig, true);
  const uint16_t port = RasPortOf(daemon);
  TwoRanks job(geteuid());
  AnswerWith(port, "   RUNNING      OK\n");
  RasClient lifecycle(port);
  ASSERT_TRUE(lifecycle.Greet());
  lifecycle.Send("MONITOR\n");
  ASSERT_EQ(lifecycle.Line(), "OK\n");
  RasClient all(port);
  ASSERT_TRUE(all.Greet());
  all.Send("MONITOR lifecycle,trace\n");
  ASSERT_EQ(all.Line(), "OK\n");
  RasClient in_json(port);
  ASSERT_TRUE(in_json.Greet(5, "json"));
  in_json.Send("MONITOR lifecycle\n");
  ASSERT_EQ(in_json.Line(), "OK\n");

  job.AllReduce(0);
  EXPECT_NE(all.Line().find("] PEER_UNRESPONSIVE: "), std::string::npos);
  job.AllReduce(1);
  EXPECT_NE(all.Line().find("] PEER_RECOVERED: "), std::string::npos);
  job.Kill(1);
  EXPECT_NE(all.Line().find("] PEER_DEAD: "), std::string::npos);
  EXPECT_NE(lifecycle.Line().find("] PEER_DEAD: "), std::string::npos) << "and nothing before";
  std::string object;
  while (object.find("\n}\n") == std::string::npos && !in_json.ended()) object += in_json.Line();
  const json event = ReadJson(object);
  ASSERT_FALSE(event.is_discarded()) << object;
  EXPECT_EQ(event["event"], "PEER_DEAD");
  EXPECT_EQ(event["ranks"], json::array({1}));
  // Who watches may ask, and is then done.
  EXPECT_NE(lifecycle.Status().find("Job summary"), std::string::npos);
  EXPECT_TRUE(lifecycle.ended());
}

TEST(Ras, CountsRanksOfOtherHosts) {
  TestCluster cluster(2, kConfig, "", "", true);
  int stay[2];
  ASSERT_EQ(pipe2(stay, O_CLOEXEC), 0);
  HostedRanks ranks(&cluster, {0, 1, 1});
  ranks.Start([&](int rank) {
    close(stay[1]);
    const ncclComm_t comm = ranks.Join(rank);
    char byte = 0;
    while (read(stay[0], &byte, 1) > 0) {
    }
    return comm != nullptr && ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
  });
  const std::string text =
      AnswerWith(RasPortOf(cluster.daemon(0)),
                 "    0         1         2       1-2         3         1   RUNNING      OK\n");
  EXPECT_NE(text.find("OTHER NODES\n  2 ranks of these communicators are on other nodes"),
            std::string::npos)
      << text;
  const json answer = JsonOf(RasPortOf(cluster.daemon(1)));
  const json& communicator = answer["communicators"][0];
  EXPECT_EQ(communicator["ranks_count"], 2);
  ASSERT_EQ(communicator["missing_ranks_count"], 1);
  const json& elsewhere = communicator["missing_ranks"][0];
  EXPECT_EQ(elsewhere["rank"], 0);
  EXPECT_EQ(elsewhere["host"], "node-0");
  EXPECT_EQ(elsewhere["status"]["unresponsive"], false);
  // A process of rank 1's host does not tell where rank 0 is.
  EXPECT_EQ(JsonText(answer).find("127.0.0."), std::string::npos);
  close(stay[0]);
  close(stay[1]);
  for (const int status : ranks.Wait()) EXPECT_EQ(status, 0);
}

TEST(Ras, NamesTheRanksForWhichACommunicatorWaits) {
  const DaemonProcess daemon(kConfig, true);
  const uint16_t port = RasPortOf(daemon);
  const pid_t rank = StartAs(geteuid(), [] {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
    static_cast<void>(ncclCommInitRank(&comm, 3, id, 1));
    return 0;
  });
  const std::string text = AnswerWith(port, "      INIT  INCOMPLETE\n");
  EXPECT_NE(text.find("  Missing communicator data from 2 ranks\n  The missing ranks: 0, 2\n"),
            std::string::npos)
      << text;
  const json answer = JsonOf(port);
  EXPECT_EQ(answer["communicators"][0]["ranks"][0]["status"]["init_state"], 7);
  kill(rank, SIGKILL);
  StatusOf(rank);
}

// ---------------------------------------------------------------------------------------------
// Users

class RasUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  }
  /// Returns what a process of the user's gets that does `ask`.
  static std::string As(uid_t user, const std::function<std::string()>& ask) {
    char path[] = "/tmp/harmonaize-ras-XXXXXX";
    const FileDescriptor file(mkstemp(path));
    const pid_t child = StartAs(user, [&] {
      const std::string answer = ask();
      return write(file.get(), answer.data(), answer.size()) == static_cast<ssize_t>(answer.size())
                 ? 0
                 : 1;
    });
    EXPECT_EQ(StatusOf(child), 0);
    std::ifstream read_back(path);
    std::ostringstream text;
    text << read_back.rdbuf();
    unlink(path);
    return text.str();
  }
  /// Returns the names of the jobs of which the user is told.
  static std::vector<pid_t> ProcessesToldTo(uid_t user, uint16_t port) {
    const json answer = ReadJson(As(user, [port] { return AskRas(port, false, "json"); }));
    EXPECT_FALSE(answer.is_discarded());
    std::vector<pid_t> processes;
    for (const json& communicator : answer["communicators"]) {
      for (const json& rank : communicator["ranks"]) processes.push_back(rank["pid"]);
    }
    std::sort(processes.begin(), processes.end());
    return processes;
  }
};

TEST_F(RasUsers, EachHearsOfItsOwnJobsAndRootOfAll) {
  const DaemonProcess daemon(kConfig, true);
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  const uint16_t port = RasPortOf(daemon);
  TwoRanks alices(kAlice);
  TwoRanks bobs(kBob);
  ASSERT_TRUE(Eventually(60, [&] { return ProcessesToldTo(0, port).size() == 4; }));
  const auto of = [](const TwoRanks& job) {
    std::vector<pid_t> processes = {job.process(0), job.process(1)};
    std::sort(processes.begin(), processes.end());
    return processes;
  };
  EXPECT_EQ(ProcessesToldTo(kAlice, port), of(alices));
  EXPECT_EQ(ProcessesToldTo(kBob, port), of(bobs));
  EXPECT_TRUE(ProcessesToldTo(kCarol, port).empty());
  // The summary, too, is of the asker's processes alone.
  EXPECT_NE(As(kCarol, [port] { return AskRas(port, true); })
                .find("      0          0            0          0        0\n"),
            std::string::npos);
}

TEST_F(RasUsers, NobodyHearsOfAnothersEvents) {
  const DaemonProcess daemon(kConfig, true);
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  const uint16_t port = RasPortOf(daemon);
  TwoRanks alices(kAlice);
  TwoRanks bobs(kBob);
  ASSERT_TRUE(Eventually(60, [&] { return ProcessesToldTo(0, port).size() == 4; }));
  // Bob hears of his own rank, and of nothing before.
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t bob = StartAs(kBob, [&] {
    // What events call a communicator without a name.
    const std::string own = JsonOf(port)["communicators"][0]["harmonaize"]["name"];
    RasClient client(port);
    client.Send("MONITOR all\n");
    if (client.Line() != "OK\n" || write(ready[1], "r", 1) != 1) return 1;
    const std::string line = client.Line();
    if (line.find("PEER_DEAD") != std::string::npos && line.find(own) != std::string::npos) {
      return 0;
    }
    std::fprintf(stderr, "Bob heard %s", line.c_str());
    return 2;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  RasClient root(port);
  root.Send("MONITOR all\n");
  ASSERT_EQ(root.Line(), "OK\n");
  alices.Kill(1);
  EXPECT_NE(root.Line().find("PEER_DEAD"), std::string::npos);
  bobs.Kill(1);
  EXPECT_EQ(StatusOf(bob), 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(RasUsers, WhoHasManyConnectionsKeepsNobodyOut) {
  const DaemonProcess daemon(kConfig, true);
  const uint16_t port = RasPortOf(daemon);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  int leave[2];
  ASSERT_EQ(pipe2(leave, O_CLOEXEC), 0);
  const pid_t alice = StartAs(kAlice, [&] {
    close(leave[1]);
    std::vector<std::unique_ptr<RasClient>> clients;
    int greeted = 0;
    for (int i = 0; i < 60; ++i) {
      clients.push_back(std::make_unique<RasClient>(port));
      greeted += clients.back()->Greet() ? 1 : 0;
    }
    if (write(ready[1], "r", 1) != 1) return 1;
    char byte = 0;
    while (read(leave[0], &byte, 1) > 0) {
    }
    return greeted == 16 ? 0 : 100 + greeted;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(As(kBob, [port] { return AskRas(port); }).find("Job summary"), std::string::npos);
  close(leave[0]);
  close(leave[1]);
  EXPECT_EQ(StatusOf(alice), 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(RasUsers, AUserWithoutANumberIsNobody) {
  const DaemonProcess daemon(kConfig, true);
  const uint16_t port = RasPortOf(daemon);
  EXPECT_EQ(As(65534, [port] { return RasClient(port).Rest(); }),
            "ERROR: the kernel does not say whose connection this is\n");
}

/// A control group that looks like a container's.
class ContainerGroup {
 public:
  ContainerGroup() {
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (fs::exists(std::string(root) + "/cgroup.controllers")) root_ = root;
    }
    path_ = root_ + "/docker-" + std::string(64, 'd') + ".scope";
    made_ = !root_.empty() && mkdir(path_.c_str(), 0755) == 0;
  }
  ~ContainerGroup() { rmdir(path_.c_str()); }
  bool made() const { return made_; }
  bool Enter() const {
    std::ofstream processes(path_ + "/cgroup.procs");
    processes << getpid() << std::flush;
    return processes.good();
  }

 private:
  std::string root_;
  std::string path_;
  bool made_ = false;
};

TEST_F(RasUsers, RootOfAContainerIsNoOperator) {
  const ContainerGroup container;
  if (!container.made()) GTEST_SKIP() << "this process can make no control groups";
  const DaemonProcess daemon(kConfig, true);
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  const uint16_t port = RasPortOf(daemon);
  TwoRanks alices(kAlice);
  ASSERT_TRUE(Eventually(60, [&] { return ProcessesToldTo(0, port).size() == 2; }));
  const std::string inside = As(
      0, [&] { return container.Enter() ? AskRas(port) : std::string("cannot enter the group"); });
  EXPECT_NE(inside.find("No communicator data collected!"), std::string::npos) << inside;
}

TEST_F(RasUsers, ContainersAreRefusedWhereTheyAreTenants) {
  const ContainerGroup container;
  if (!container.made()) GTEST_SKIP() << "this process can make no control groups";
  const DaemonProcess daemon(std::string(kConfig) + "[tenants]\nidentity = \"cgroup\"\n", true);
  const uint16_t port = RasPortOf(daemon);
  for (const uid_t user : {uid_t{0}, kAlice}) {
    EXPECT_NE(As(user, [port] { return AskRas(port); }).find("Job summary"), std::string::npos);
    const std::string inside = As(0, [&] {
      if (!container.Enter()) return std::string("cannot enter the group");
      BecomeUser(user);
      return RasClient(port).Rest();
    });
    EXPECT_EQ(inside.rfind("ERROR: containers are tenants of their own here", 0), 0u) << inside;
  }
}

// ---------------------------------------------------------------------------------------------
// NCCL's own client

/// Returns the path of ncclras: HARMONAIZE_NCCLRAS names it, or it is where packages put it.
std::string StockClient() {
  const char* const named = getenv("HARMONAIZE_NCCLRAS");
  if (named != nullptr) return named;
  for (const char* path : {"/usr/bin/ncclras", "/usr/local/cuda/bin/ncclras"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

TEST(RasStockClient, PrintsOurJobs) {
  const std::string client = StockClient();
  if (client.empty()) GTEST_SKIP() << "no ncclras here: HARMONAIZE_NCCLRAS names one";
  const DaemonProcess daemon(kConfig, true);
  const std::string port = std::to_string(RasPortOf(daemon));
  TwoRanks job(geteuid());
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {client, "--host=127.0.0.1", "--port=" + port};
    words.insert(words.end(), more.begin(), more.end());
    return RunAs(geteuid(), words);
  };
  ASSERT_TRUE(Eventually(
      60, [&] { return run({}).text.find("   RUNNING      OK\n") != std::string::npos; }));
  job.AllReduce(0);
  EXPECT_TRUE(Eventually(60, [&] {
    return run({"--verbose"}).text.find("have different AllReduce operation counts\n") !=
           std::string::npos;
  }));
  const Ran in_json = run({"--format=json", "--timeout=3"});
  EXPECT_EQ(in_json.status, 0);
  const json answer = ReadJson(in_json.text);
  ASSERT_FALSE(answer.is_discarded()) << in_json.text;
  EXPECT_EQ(answer["communicators"][0]["ranks_count"], 2);
  // It watches until the other side ends, which the test's kill of the daemon's makes it do.
  const pid_t killer = StartAs(geteuid(), [&] {
    sleep(1);
    return kill(job.process(1), SIGKILL) == 0 ? (sleep(1), kill(daemon.pid(), SIGTERM)) : 1;
  });
  const Ran watched = run({"--monitor=all"});
  EXPECT_NE(watched.text.find("] PEER_DEAD: "), std::string::npos) << watched.text;
  EXPECT_NE(watched.text.find("Connection closed by the NCCL job."), std::string::npos);
  EXPECT_EQ(StatusOf(killer), 0);
}

}  // namespace
}  // namespace harmonaize::testing
