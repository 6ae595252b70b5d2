#include "perf/fabric/laboratory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "cli/plan/fabric_summary.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/roles.h"
#include "perf/fabric/status.h"
#include "perf/fabric/tool.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize::fabric {
namespace {

namespace fs = std::filesystem;

/// Waits for what is bound to come; false after 20 s.
bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Each test has laboratories of its own name in a state folder of its own.
class LaboratoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Status status = CheckPrivileges(); !status.ok()) GTEST_SKIP() << status.message();
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    ::setenv("HARMONAIZE_FABRIC_STATE", State().c_str(), 1);
  }
  void TearDown() override {
    if (folder_.path().empty()) return;
    EXPECT_TRUE(Laboratory::Down(name_).ok());
    ExpectNothingLeft();
  }

  std::string State() const { return folder_.path() + "/state"; }
  static std::string Shipped(const std::string& name) {
    return FABRICS_FOLDER "/" + name + ".toml";
  }
  /// Runs the program with these words and returns its exit status; what it wrote is in said_.
  int Fabric(std::vector<std::string> words) {
    const Environment environment = Environment::OfThisProcess();
    Launched run(std::move(words), FABRIC_PROGRAM, &environment);
    const int status = run.Wait();
    said_ = run.output() + run.error();
    return status;
  }
  void Up(const std::string& fabric) {
    ASSERT_EQ(Fabric({"up", Shipped(fabric), "--name", name_}), 0) << said_;
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(NamespacesOf(name_), std::vector<std::string>());
    EXPECT_FALSE(fs::exists(State())) << "state was left behind";
  }
  std::vector<LinkStatus> Links() {
    Result<Laboratory> laboratory = Laboratory::Open(name_);
    EXPECT_TRUE(laboratory.ok()) << laboratory.status().message();
    Result<std::vector<LinkStatus>> links = LinksNow(*laboratory);
    EXPECT_TRUE(links.ok()) << links.status().message();
    return links.ok() ? *links : std::vector<LinkStatus>();
  }
  /// What a link has sent from its first end.
  int64_t Sent(const std::string& link) {
    Result<FabricFile> file = LoadFabricFile(Shipped("two-racks"));
    return Links().at(static_cast<size_t>(file->fabric.FindLink(link))).sent_bytes[0];
  }
  std::vector<RoleProcess> Roles() {
    Result<Laboratory> laboratory = Laboratory::Open(name_);
    return laboratory.ok() ? RoleProcesses(*laboratory) : std::vector<RoleProcess>();
  }

  const std::string name_ = "test" + std::to_string(::getpid());
  TemporaryFolder folder_;
  std::string said_;
};

TEST_F(LaboratoryTest, EveryShippedFabricConnectsAllItsHosts) {
  const std::pair<const char*, int> kFabrics[] = {{"one-rack", 12},
                                                  {"two-racks", 144},
                                                  {"three-racks-unequal", 126},
                                                  {"ring", 144},
                                                  {"rails", 24}};
  for (const auto& [fabric, connections] : kFabrics) {
    Up(fabric);
    EXPECT_EQ(Fabric({"check", "--name", name_}), 0) << said_;
    EXPECT_EQ(said_,
              fmt::format("{} connections between NICs came about, 0 did not\n", connections));
    EXPECT_EQ(Fabric({"measure", "host0", "host1", "--seconds", "0.1"}), 0) << said_;
    std::printf("%s\n%s", fabric, said_.c_str());
    EXPECT_EQ(Fabric({"status", "--json"}), 0) << said_;
    EXPECT_EQ(Fabric({"down"}), 0) << said_;
    ExpectNothingLeft();
    EXPECT_EQ(Fabric({"down", "--name", name_}), 0) << said_;
    EXPECT_NE(said_.find("was not up"), std::string::npos) << said_;
  }
}

// Which racks it finds is printed and not asserted: on a machine that does something else at the
// same time, measurements tell nothing. The unit tests hold what is made of measurements.
TEST_F(LaboratoryTest, AStateFolderThatTheUserHasMadeStays) {
  fs::create_directory(State());
  Up("two-hosts");
  EXPECT_EQ(Fabric({"down", "--name", name_}), 0) << said_;
  EXPECT_TRUE(fs::exists(State()) && fs::is_empty(State()));
  fs::remove(State());
}

TEST_F(LaboratoryTest, ProbingWritesAFabricThatCanBeBuilt) {
  for (const char* fabric : {"one-rack", "two-racks"}) {
    Up(fabric);
    const std::string inferred = folder_.path() + "/inferred.toml";
    const std::string measured = folder_.path() + "/measured.json";
    ASSERT_EQ(Fabric({"probe", "--seconds", "0.05", "-o", inferred, "--measurements", measured}), 0)
        << said_;
    std::printf("%s\n%s", fabric, said_.c_str());
    EXPECT_NE(said_.find("\nconfidence "), std::string::npos) << said_;
    EXPECT_EQ(Fabric({"down"}), 0) << said_;
    // What was written is a fabric file, with the hosts' own addresses, and can be built.
    Result<FabricFile> read = LoadFabricFile(inferred);
    ASSERT_TRUE(read.ok()) << read.status().message();
    Result<FabricFile> file = LoadFabricFile(Shipped(fabric));
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const Endpoint& endpoint : file->fabric.Endpoints()) {
      EXPECT_EQ(read->fabric.NicAt(endpoint).address, file->fabric.NicAt(endpoint).address);
    }
    EXPECT_EQ(Fabric({"up", inferred, "--name", name_}), 0) << said_;
    EXPECT_EQ(Fabric({"check"}), 0) << said_;
    EXPECT_EQ(Fabric({"down"}), 0) << said_;
  }
}

// The same through daemons, which then work with what they found.
TEST_F(LaboratoryTest, DaemonsProbeTheirNetwork) {
  Up("two-racks");
  const Environment environment = Environment::OfThisProcess();
  Launched serve({"serve", "--daemon-fabric", "none"}, FABRIC_PROGRAM, &environment);
  ASSERT_TRUE(serve.ReadUntil("4 daemons serve laboratory")) << serve.error();
  Result<FabricFile> file = LoadFabricFile(Shipped("two-racks"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::string inferred = folder_.path() + "/inferred.toml";
  const std::string socket = State() + "/" + name_ + "/hosts/host0/harmonaized.sock";
  std::vector<std::string> words = {"exec",   "host0",     "--",   HARMONAIZE_PROGRAM,
                                    "probe",  "--socket",  socket, "-o",
                                    inferred, "--seconds", "0.05"};
  for (const int host : file->fabric.Hosts()) {
    words.push_back(file->fabric.NicAt({host, 0}).address);
  }
  ASSERT_EQ(Fabric(words), 0) << said_;
  std::printf("%s", said_.c_str());
  Result<FabricFile> read = LoadFabricFile(inferred);
  ASSERT_TRUE(read.ok()) << read.status().message();
  // Devices for explicit paths are not taken for NICs.
  for (const Endpoint& endpoint : file->fabric.Endpoints()) {
    const std::string& name = file->fabric.nodes[static_cast<size_t>(endpoint.host)].name;
    const Endpoint found{read->fabric.FindNode(name), endpoint.nic};
    ASSERT_GE(found.host, 0) << name;
    EXPECT_EQ(read->fabric.NicAt(found).address, file->fabric.NicAt(endpoint).address);
  }
  EXPECT_EQ(read->fabric.Endpoints().size(), file->fabric.Endpoints().size());
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0) << serve.error();

  EXPECT_EQ(Fabric({"run", "--daemon-fabric", inferred, "--no-preload", "--", ALL_REDUCE_PERF, "-b",
                    "64K", "-e", "64K", "-n", "1", "-w", "0"}),
            0)
      << said_;
  EXPECT_EQ(Fabric({"run", "--daemon-fabric", "/nonexistent.toml", "--", "true"}), 125);
  EXPECT_NE(said_.find("/nonexistent.toml"), std::string::npos) << said_;
  EXPECT_EQ(Fabric({"run", "--daemon-fabric", Shipped("two-hosts"), "--", "true"}), 2);
  EXPECT_NE(said_.find("has no host 'host2'"), std::string::npos) << said_;
}

TEST_F(LaboratoryTest, ExplicitPathsCrossTheirSpine) {
  Up("two-racks");
  constexpr int64_t kBytes = 2'000'000;
  // Acknowledgements, and what the kernel may repeat.
  constexpr int64_t kLittle = 200'000;
  for (const char* ends : {"host0 host2", "host1:nic1 host3:nic1", "host0:nic0 host3:nic1"}) {
    const std::string text = ends;
    const size_t space = text.find(' ');
    for (int path = 0; path < 2; ++path) {
      const std::string here = "leaf0-spine" + std::to_string(path);
      const std::string other = "leaf0-spine" + std::to_string(1 - path);
      const int64_t before = Sent(here);
      const int64_t other_before = Sent(other);
      ASSERT_EQ(Fabric({"measure", text.substr(0, space), text.substr(space + 1), "--one-way",
                        "--bytes", std::to_string(kBytes), "--path", std::to_string(path)}),
                0)
          << said_;
      EXPECT_GE(Sent(here) - before, kBytes) << ends << " by path " << path;
      EXPECT_LT(Sent(other) - other_before, kLittle) << ends << " by path " << path;
    }
  }
}

TEST_F(LaboratoryTest, ABoundSourceLeavesByItsOwnNic) {
  Up("two-racks");
  for (const char* path : {"-1", "0", "1"}) {
    const int64_t before = Sent("host0-leaf0.1");
    ASSERT_EQ(Fabric({"measure", "host0:nic1", "host2:nic0", "--one-way", "--bytes", "500000",
                      "--path", path}),
              0)
        << said_;
    EXPECT_GE(Sent("host0-leaf0.1") - before, 500'000) << path;
  }
}

TEST_F(LaboratoryTest, EcmpUsesBothSpines) {
  Up("two-racks");
  const int64_t before[] = {Sent("leaf0-spine0"), Sent("leaf0-spine1")};
  // Ports decide: that 64 connections all take one spine has a chance of 2 in 2^64.
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(Fabric({"measure", "host0", "host2", "--one-way", "--bytes", "50000"}), 0) << said_;
  }
  EXPECT_GE(Sent("leaf0-spine0") - before[0], 50'000);
  EXPECT_GE(Sent("leaf0-spine1") - before[1], 50'000);
}

TEST_F(LaboratoryTest, ACutLinkIsGoneRoundAndAPinnedPathIsNot) {
  Up("two-racks");
  const std::vector<std::string> by_path = {"measure", "host0",  "host2", "--bytes",
                                            "1000",    "--path", "0"};
  ASSERT_EQ(Fabric({"disturb", "link-down", "leaf1,spine0"}), 0) << said_;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Fabric({"measure", "host0", "host2", "--bytes", "1000"}), 0) << said_;
  }
  EXPECT_EQ(Fabric(by_path), 1) << said_;
  EXPECT_NE(said_.find("10.96.1.1 cannot connect to 10.96.1.5"), std::string::npos) << said_;
  EXPECT_FALSE(Links()[10].up);
  ASSERT_EQ(Fabric({"disturb", "link-up", "leaf1-spine0"}), 0) << said_;
  EXPECT_EQ(Fabric(by_path), 0) << said_;
  EXPECT_EQ(Fabric({"check"}), 0) << said_;
  // Nobody is told: some of what crosses the fabric is lost, and nothing else.
  ASSERT_EQ(Fabric({"disturb", "link-down", "leaf1-spine0", "--silent"}), 0) << said_;
  EXPECT_EQ(Fabric({"measure", "host0", "host1", "--bytes", "1000"}), 0) << said_;
  EXPECT_EQ(Fabric(by_path), 1) << said_;
  ASSERT_EQ(Fabric({"disturb", "link-up", "leaf1-spine0"}), 0) << said_;
  EXPECT_EQ(Fabric({"check"}), 0) << said_;
}

TEST_F(LaboratoryTest, RatesChangeAndComeBack) {
  Up("one-rack");
  ASSERT_EQ(Fabric({"disturb", "rate", "host0-leaf0", "100Mbit", "50Mbit"}), 0) << said_;
  EXPECT_EQ(Links()[0].bytes_per_second, (std::array<double, 2>{12.5e6, 6.25e6}));
  const auto shaped = [&](const std::string& node) {
    return *RunTool({"tc", "-n", NamespaceName(name_, node), "qdisc", "show"});
  };
  EXPECT_NE(shaped("host0").find("rate 100Mbit"), std::string::npos) << shaped("host0");
  EXPECT_NE(shaped("leaf0").find("rate 50Mbit"), std::string::npos) << shaped("leaf0");
  ASSERT_EQ(Fabric({"disturb", "rate", "host0-leaf0", "nominal"}), 0) << said_;
  EXPECT_EQ(shaped("host0").find("rate 100Mbit"), std::string::npos) << shaped("host0");
  EXPECT_EQ(Fabric({"disturb", "rate", "host0-leaf0", "fast"}), 2);
  EXPECT_EQ(Fabric({"disturb", "rate", "host0-lead0", "1Gbit"}), 2);
  EXPECT_NE(said_.find("did you mean 'host0-leaf0'?"), std::string::npos) << said_;
}

TEST_F(LaboratoryTest, BackgroundFlowsRunUntilTheyAreEnded) {
  Up("two-racks");
  const int64_t before = Sent("leaf0-spine1");
  ASSERT_EQ(Fabric({"disturb", "flow", "host0", "host2", "--rate", "50Mbit", "--path", "1"}), 0)
      << said_;
  EXPECT_TRUE(Eventually([&] { return Sent("leaf0-spine1") - before > 500'000; }));
  EXPECT_EQ(ProcessesIn(NamespacesOf(name_)).size(), 1u);
  EXPECT_EQ(Fabric({"disturb", "flow-end", "7"}), 2) << said_;
  EXPECT_EQ(Fabric({"disturb", "flow-end", "1"}), 0) << said_;
  EXPECT_TRUE(Eventually([&] { return ProcessesIn(NamespacesOf(name_)).empty(); }));
  EXPECT_EQ(Fabric({"disturb", "flow", "host0", "host2", "--rate", "50Mbit", "--path", "2"}), 2);
}

TEST_F(LaboratoryTest, RanksOfTwoHostsMeetAtTheMaster) {
  Up("two-racks");
  const std::string program = R"(
import os, socket
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    peer = socket.create_server(address).accept()[0]
    print("got", peer.recv(100).decode(), "at", os.environ["HARMONAIZE_FABRIC_HOST"])
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    peer.send(os.environ["HARMONAIZE_FABRIC_HOST"].encode())
)";
  EXPECT_EQ(Fabric({"run", "--hosts", "host0:1,host3:1", "--daemon", "none", "--no-preload", "--",
                    "python3", "-c", program}),
            0)
      << said_;
  EXPECT_EQ(said_, "[0] got host3 at host0\n");
  // The exit status is the failed rank's; what the command line lacks is said.
  EXPECT_EQ(Fabric({"run", "-n", "2", "--daemon", "none", "--no-preload", "--", "sh", "-c",
                    "exit $((RANK * 3))"}),
            3);
  EXPECT_EQ(Fabric({"run", "-n", "2"}), 2);
  EXPECT_EQ(Fabric({"exec", "host0", "--", "/nonexistent"}), 127);
}

TEST_F(LaboratoryTest, EachHostHasItsDaemonForTheJob) {
  Up("two-racks");
  // Two jobs on two hosts at a time, which know nothing of each other.
  std::thread other([] {
    const Environment environment = Environment::OfThisProcess();
    Launched run({"run", "--hosts", "host2:2", "--no-preload", "--", ALL_REDUCE_PERF, "-b", "1K",
                  "-e", "64K", "-f", "8", "-c", "1", "-n", "3"},
                 FABRIC_PROGRAM, &environment);
    EXPECT_EQ(run.Wait(), 0) << run.output() << run.error();
  });
  EXPECT_EQ(Fabric({"run", "--hosts", "host1:2", "--no-preload", "--", ALL_REDUCE_PERF, "-b", "1K",
                    "-e", "64K", "-f", "8", "-c", "1", "-n", "3"}),
            0)
      << said_;
  other.join();
  EXPECT_NE(said_.find("Out of bounds values : 0 OK"), std::string::npos) << said_;
  EXPECT_TRUE(fs::exists(State() + "/" + name_ + "/hosts/host1/harmonaized.log"));
  EXPECT_TRUE(ProcessesIn(NamespacesOf(name_)).empty());
}

// Ranks copy what is large themselves there, through shared memory, and plans cut it finely.
TEST_F(LaboratoryTest, LargeBuffersFromTheHeapCrossAFastLink) {
  Up("two-hosts");
  EXPECT_EQ(Fabric({"run", "--no-preload",
                    "--",  ALL_REDUCE_PERF,
                    "-b",  "16M",
                    "-e",  "64M",
                    "-f",  "4",
                    "-R",  "0",
                    "-y",  "1",
                    "-c",  "1",
                    "-n",  "2",
                    "-w",  "1"}),
            0)
      << said_;
  EXPECT_NE(said_.find("Out of bounds values : 0 OK"), std::string::npos) << said_;
}

TEST_F(LaboratoryTest, RanksAndDaemonsAreKilledByTheirRole) {
  Up("two-racks");
  const Environment environment = Environment::OfThisProcess();
  Launched run({"run", "--hosts", "host0:2,host2:1", "--no-preload", "--", "sleep", "60"},
               FABRIC_PROGRAM, &environment);
  ASSERT_TRUE(Eventually([this] { return Roles().size() == 5; }));
  EXPECT_EQ(Fabric({"disturb", "kill", "host1", "daemon"}), 1) << said_;
  EXPECT_EQ(Fabric({"disturb", "kill", "host2", "daemon"}), 0) << said_;
  EXPECT_TRUE(Eventually([this] { return Roles().size() == 4; }));
  EXPECT_EQ(Fabric({"disturb", "kill", "host0", "rank:1"}), 0) << said_;
  EXPECT_EQ(run.Wait(), 137) << run.error();
  EXPECT_NE(run.error().find("rank 1 "), std::string::npos) << run.error();
  EXPECT_TRUE(ProcessesIn(NamespacesOf(name_)).empty());
}

TEST_F(LaboratoryTest, AKilledLauncherTakesItsJobAlong) {
  Up("one-rack");
  const Environment environment = Environment::OfThisProcess();
  Launched run({"run", "-n", "2", "--no-preload", "--", "sleep", "60"}, FABRIC_PROGRAM,
               &environment);
  ASSERT_TRUE(Eventually([this] { return Roles().size() == 4; }));
  run.Signal(SIGKILL);
  EXPECT_TRUE(Eventually([this] { return ProcessesIn(NamespacesOf(name_)).empty(); }));
}

TEST_F(LaboratoryTest, DownEndsWhateverRunsInside) {
  Up("two-racks");
  const Environment environment = Environment::OfThisProcess();
  Launched serve({"serve"}, FABRIC_PROGRAM, &environment);
  Launched stubborn({"exec", "spine0", "--", "sh", "-c", "trap '' TERM; sleep 60; sleep 60"},
                    FABRIC_PROGRAM, &environment);
  ASSERT_EQ(Fabric({"disturb", "flow", "host0", "host2", "--rate", "1Mbit"}), 0) << said_;
  ASSERT_TRUE(Eventually([this] { return Roles().size() == 4; }));
  EXPECT_EQ(Fabric({"down"}), 0) << said_;
  ExpectNothingLeft();
  serve.Wait();
  EXPECT_NE(stubborn.Wait(), 0);
}

TEST_F(LaboratoryTest, AFailedUpRemovesWhatItMade) {
  const std::string file = folder_.path() + "/bad.toml";
  // A device of this name is there already, which only the kernel notices.
  std::ofstream(file) << "[[host]]\nname = [\"a\", \"b\"]\n[[switch]]\nname = \"s\"\n"
                         "[[link]]\nfrom = \"a\"\nto = \"s\"\nrate = \"1Gbit\"\n"
                         "[[link]]\nfrom = \"b:lo\"\nto = \"s\"\nrate = \"1Gbit\"\n";
  EXPECT_EQ(Fabric({"up", file, "--name", name_}), 1);
  EXPECT_NE(said_.find("'ip -batch "), std::string::npos) << said_;
  ExpectNothingLeft();
  EXPECT_EQ(Fabric({"up", "/nonexistent.toml"}), 1);
  EXPECT_EQ(Fabric({"status", "--name", name_}), 1);
  EXPECT_NE(said_.find("no laboratory '" + name_ + "' is up"), std::string::npos) << said_;
}

TEST_F(LaboratoryTest, UpRefusesASecondOfTheSameName) {
  Up("one-rack");
  EXPECT_EQ(Fabric({"up", Shipped("one-rack"), "--name", name_}), 2);
  EXPECT_NE(said_.find("is up; 'fabric down --name " + name_), std::string::npos) << said_;
  EXPECT_EQ(Fabric({"check"}), 0) << said_;
}

TEST_F(LaboratoryTest, NothingIsLeftOfAnUpThatWasKilled) {
  std::mt19937 random(std::random_device{}());
  constexpr int kRounds = 24;
  int killed = 0;
  for (int i = 0; i < kRounds; ++i) {
    const Environment environment = Environment::OfThisProcess();
    Launched up({"up", Shipped("three-racks-unequal"), "--name", name_}, FABRIC_PROGRAM,
                &environment);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 120'000));
    up.Signal(SIGKILL);
    killed += up.Wait() == 128 + SIGKILL ? 1 : 0;
    // Every other time a new one is to come up on the remains of the old, unless that was complete.
    if (i % 2 == 0) {
      const int status = Fabric({"up", Shipped("ring"), "--name", name_});
      EXPECT_TRUE(status == 0 || said_.find("is up; ") != std::string::npos) << said_;
    }
    EXPECT_EQ(Fabric({"down", "--name", name_}), 0) << said_;
    ExpectNothingLeft();
  }
  std::printf("%d of %d were killed before they ended\n", killed, kRounds);
}

TEST(LaboratoryPrivileges, LackOfThemIsSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give privileges up";
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const Status status = CheckPrivileges();
    ::_exit(status.message().find("needs root") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace harmonaize::fabric
