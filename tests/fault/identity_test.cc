// Who is a tenant, where that is more than a user: whoever comes by a socket of its own, and each
// container.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hostile_session.h"

namespace harmonaize::testing {
namespace {

UniqueId NewId(HostileSession& session) {
  EXPECT_TRUE(session.Ask(CreateIdRequest{}).ok());
  return session.LastReply<CreateIdReply>().id;
}

/// Whether the ids that one makes are nobody's but its own.
void ExpectStrangers(HostileSession& one, HostileSession& other) {
  const UniqueId id = NewId(one);
  EXPECT_FALSE(other.TryJoin(id, 1, 0).ok());
  EXPECT_TRUE(one.TryJoin(id, 1, 0).ok());
}

std::set<std::string> TenantsOf(const DaemonProcess& daemon) {
  const Result<std::string> text = FetchDaemonStatus(OperatorSocketPath(daemon.socket_path()));
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  std::set<std::string> names;
  const nlohmann::json status = ReadJson(*text);
  for (const auto& tenant : status.at("tenants")) {
    names.insert(tenant.at("name").get<std::string>());
  }
  return names;
}

TEST(Identity, WhoComesByASocketOfItsOwnIsATenant) {
  char folder[] = "/tmp/harmonaize-identity-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  {
    const std::string red = std::string(folder) + "/red.sock";
    const std::string blue = std::string(folder) + "/blue.sock";
    const DaemonProcess daemon(
        "[tenants]\nidentity = \"socket\"\n[[tenants.sockets]]\nname = \"red\"\npath = \"" + red +
        "\"\n[[tenants.sockets]]\nname = \"blue\"\npath = \"" + blue + "\"\n");
    HostileSession by_red(red);
    HostileSession by_blue(blue);
    HostileSession by_none(daemon.socket_path());
    ExpectStrangers(by_red, by_blue);
    ExpectStrangers(by_blue, by_red);
    ExpectStrangers(by_none, by_red);
    std::set<std::string> names = TenantsOf(daemon);
    EXPECT_EQ(names.size(), 3u);
    EXPECT_TRUE(names.contains("blue") && names.contains("red"));
  }
  std::filesystem::remove_all(folder);
}

/// A control group that looks like a container's, which this process enters and leaves.
class ContainerGroup {
 public:
  /// `digit` is what its id is made of.
  ContainerGroup(const std::string& hierarchy, char digit)
      : path_(hierarchy + "/docker-" + std::string(64, digit) + ".scope"), root_(hierarchy) {
    made_ = mkdir(path_.c_str(), 0755) == 0;
  }
  ~ContainerGroup() {
    Leave();
    rmdir(path_.c_str());
  }
  bool made() const { return made_; }
  bool Enter() const { return Write(path_); }
  bool Leave() const { return Write(root_); }

 private:
  static bool Write(const std::string& group) {
    std::ofstream processes(group + "/cgroup.procs");
    processes << getpid() << std::flush;
    return processes.good();
  }

  const std::string path_;
  const std::string root_;
  bool made_ = false;
};

/// Where the unified hierarchy is mounted; "" where it is not.
std::string UnifiedHierarchy() {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device;
    std::string folder;
    std::string type;
    words >> device >> folder >> type;
    if (type == "cgroup2") return folder;
  }
  return "";
}

TEST(Identity, AContainerIsATenant) {
  const std::string hierarchy = UnifiedHierarchy();
  const ContainerGroup one(hierarchy, 'a');
  const ContainerGroup other(hierarchy, 'b');
  if (!one.made() || !other.made()) GTEST_SKIP() << "this process can make no control groups";
  const DaemonProcess daemon("[tenants]\nidentity = \"cgroup\"\n");
  const auto open = [&](const ContainerGroup& group) {
    EXPECT_TRUE(group.Enter());
    HostileSession session(daemon.socket_path());
    EXPECT_TRUE(group.Leave());
    return session;
  };
  HostileSession in_one = open(one);
  HostileSession again = open(one);
  HostileSession in_other = open(other);
  HostileSession outside(daemon.socket_path());
  ExpectStrangers(in_one, in_other);
  ExpectStrangers(in_other, in_one);
  ExpectStrangers(outside, in_one);
  ExpectStrangers(in_one, outside);
  // Processes of one container are one tenant.
  EXPECT_TRUE(again.TryJoin(NewId(in_one), 1, 0).ok());
  EXPECT_EQ(TenantsOf(daemon).size(), 3u);
}

}  // namespace
}  // namespace harmonaize::testing
