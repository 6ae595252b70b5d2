// Daemons that measure the network among themselves: on the loopback device, where each has an
// address of its own.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "src/topology/fabric/fabric_file.h"
#include "src/topology/inference/measurements.h"
#include "tests/support/cluster.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize::testing {
namespace {

constexpr double kShort = 0.05;

std::string AddressOf(const DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  return ReadJson(*status).at("cluster").at("address").get<std::string>();
}

std::vector<std::string> Addresses(TestCluster& cluster) {
  std::vector<std::string> addresses;
  for (int host = 0; host < cluster.hosts(); ++host) {
    addresses.push_back(AddressOf(cluster.daemon(host)));
  }
  return addresses;
}

Result<std::string> Probe(
    const DaemonProcess& daemon, const std::vector<std::string>& addresses, double seconds = kShort,
    const std::function<void(const std::string&)>& progress = [](const std::string&) {}) {
  return FetchProbe(daemon.socket_path(), addresses, seconds, progress);
}

/// A process that asks for a probe of long transfers and waits for its end. Returns once hosts are
/// sending.
pid_t StartLongProbe(const DaemonProcess& daemon, const std::vector<std::string>& addresses) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto measured = Probe(daemon, addresses, 5, [&](const std::string& what) {
      if (what.find("tournament") != std::string::npos && write(ends[1], "x", 1) != 1) _exit(2);
    });
    _exit(measured.ok() ? 0 : 1);
  }
  close(ends[1]);
  char said = 0;
  EXPECT_EQ(read(ends[0], &said, 1), 1);
  close(ends[0]);
  return child;
}

TEST(Probe, FindsTheHosts) {
  TestCluster cluster(3);
  const std::string file = cluster.daemon(0).folder() + "/inferred.toml";
  const std::string measurements = cluster.daemon(0).folder() + "/measured.json";
  const std::vector<std::string> addresses = Addresses(cluster);
  Launched probe({"probe", addresses[0], addresses[1], addresses[2], addresses[1], "-o", file,
                  "--measurements", measurements, "--seconds", "0.05", "--socket",
                  cluster.daemon(1).socket_path()});
  EXPECT_EQ(probe.Wait(), 0) << probe.error();
  EXPECT_NE(probe.output().find("\nconfidence "), std::string::npos) << probe.output();
  const Result<FabricFile> read = LoadFabricFile(file);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Fabric& fabric = read->fabric;
  ASSERT_EQ(fabric.Hosts().size(), 3u);
  for (int host = 0; host < 3; ++host) {
    const Node& node = fabric.nodes[static_cast<size_t>(fabric.Hosts()[static_cast<size_t>(host)])];
    ASSERT_EQ(node.nics.size(), 1u);
    EXPECT_EQ(node.nics[0].address, fmt::format("127.0.0.{}", host + 1));
  }
  std::filesystem::remove(file);
  EXPECT_TRUE(std::filesystem::remove(measurements));

  // By now the leader is linked with all of them.
  const Result<std::string> linked = Probe(cluster.daemon(1), {});
  ASSERT_TRUE(linked.ok()) << linked.status().message();
  const Result<Measurements> measured = ParseMeasurements(*linked, "the document");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  EXPECT_EQ(measured->hosts.size(), 3u);
  EXPECT_EQ(measured->round_trips.size(), 15u);  // three pairs in five passes
}

TEST(Probe, HostsAreCalledWhatTheirDaemonsAre) {
  TestCluster cluster(2, "", "host = \"left.of.two\"\n");
  const Result<std::string> document = Probe(cluster.daemon(0), Addresses(cluster));
  ASSERT_TRUE(document.ok()) << document.status().message();
  const Result<Measurements> measured = ParseMeasurements(*document, "the document");
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  EXPECT_EQ(measured->hosts[0].name, "left");
  EXPECT_EQ(measured->hosts[1].name, "left-2");
}

TEST(Probe, WrongRequestsAreRefused) {
  TestCluster cluster(2);
  const DaemonProcess& daemon = cluster.daemon(0);
  const auto why = [&](const std::vector<std::string>& addresses, double seconds = kShort) {
    const Result<std::string> measured = Probe(daemon, addresses, seconds);
    EXPECT_FALSE(measured.ok());
    return measured.status().message();
  };
  EXPECT_NE(why({}).find("two daemons or more"), std::string::npos) << why({});
  EXPECT_NE(why({"10.0.0"}).find("10.0.0"), std::string::npos);
  EXPECT_NE(why({"127.0.0.9:1", AddressOf(daemon)}).find("127.0.0.9:1 cannot be reached"),
            std::string::npos);
  EXPECT_NE(why(Addresses(cluster), 1000).find("1000"), std::string::npos);
  Launched wrong({"probe", "--seconds", "1000", "--socket", daemon.socket_path()});
  EXPECT_EQ(wrong.Wait(), 2);

  DaemonProcess alone;
  const Result<std::string> measured = Probe(alone, {});
  EXPECT_NE(measured.status().message().find("cluster.address"), std::string::npos);
}

TEST(Probe, OnlyTheProviderMay) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  TestCluster cluster(2);
  const std::vector<std::string> addresses = Addresses(cluster);
  ASSERT_EQ(chmod(cluster.daemon(0).folder().c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(2);
    const Result<std::string> measured = Probe(cluster.daemon(0), addresses);
    const bool refused = measured.status().code() == Code::kInvalidUsage &&
                         measured.status().message().find("only operators") != std::string::npos;
    if (!refused) std::fprintf(stderr, "%s\n", measured.status().ToString().c_str());
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Probe, OneAtATimeAndAnInterruptedOneLeavesNothing) {
  TestCluster cluster(3);
  const std::vector<std::string> addresses = Addresses(cluster);
  ASSERT_TRUE(Probe(cluster.daemon(0), addresses).ok());  // links are made
  std::vector<int> descriptors;
  for (int host = 0; host < 3; ++host) {
    descriptors.push_back(cluster.daemon(host).OpenDescriptors());
  }
  const pid_t asker = StartLongProbe(cluster.daemon(0), addresses);
  const std::string led = Probe(cluster.daemon(0), addresses).status().message();
  EXPECT_NE(led.find("leads a probe already"), std::string::npos) << led;
  const std::string joined = Probe(cluster.daemon(1), addresses).status().message();
  EXPECT_NE(joined.find("takes part in a probe already, which"), std::string::npos) << joined;

  ASSERT_EQ(kill(asker, SIGKILL), 0);
  ASSERT_EQ(waitpid(asker, nullptr, 0), asker);
  for (int host = 0; host < 3; ++host) {
    // Two links between daemons more: that of the refused leader.
    EXPECT_TRUE(cluster.daemon(host).SettlesTo(descriptors[static_cast<size_t>(host)] + 4))
        << "host " << host << " had " << descriptors[static_cast<size_t>(host)] << ", has "
        << cluster.daemon(host).OpenDescriptors();
  }
  EXPECT_TRUE(Probe(cluster.daemon(2), addresses).ok()) << "all are free again";
}

TEST(Probe, ADaemonThatDiesEndsIt) {
  TestCluster cluster(3);
  const std::vector<std::string> addresses = Addresses(cluster);
  ASSERT_TRUE(Probe(cluster.daemon(0), addresses).ok());  // links are made
  const int descriptors = cluster.daemon(1).OpenDescriptors();
  std::thread killer;
  const Result<std::string> measured =
      Probe(cluster.daemon(0), addresses, 3, [&](const std::string& what) {
        if (killer.joinable() || what.find("tournament") == std::string::npos) return;
        killer = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          cluster.daemon(2).Kill();
        });
      });
  if (killer.joinable()) killer.join();
  EXPECT_EQ(measured.status().code(), Code::kRemoteError);
  const std::string why = measured.status().message();
  EXPECT_NE(why.find(addresses[2]), std::string::npos) << why;
  EXPECT_NE(why.find("was lost"), std::string::npos) << why;
  EXPECT_TRUE(cluster.daemon(1).SettlesTo(descriptors));
  const Result<std::string> again = Probe(cluster.daemon(0), {addresses[0], addresses[1]});
  EXPECT_TRUE(again.ok()) << again.status().message();
}

TEST(Probe, ALeaderThatDiesSetsTheOthersFree) {
  TestCluster cluster(3);
  const std::vector<std::string> addresses = Addresses(cluster);
  const pid_t asker = StartLongProbe(cluster.daemon(2), addresses);
  cluster.daemon(2).Kill();
  int status = 0;
  ASSERT_EQ(waitpid(asker, &status, 0), asker);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  // They notice at once, but not before the asker does.
  bool free = false;
  for (int i = 0; i < 100 && !free; ++i) {
    free = Probe(cluster.daemon(0), {addresses[0], addresses[1]}).ok();
    if (!free) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(free);
}

}  // namespace
}  // namespace harmonaize::testing
