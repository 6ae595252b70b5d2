#include "daemon/ras/ras_caller.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "daemon/identity/control_groups.h"

namespace harmonaize::daemon {
namespace {

TEST(RasCallers, KnowTheGroupsOfTheHostsOwnProcesses) {
  const std::string id(64, 'a');
  for (const char* path : {"/", "/init.scope", "/system.slice/ssh.service",
                           "/user.slice/user-0.slice/session-3.scope", "/user.slice"}) {
    EXPECT_TRUE(IsHostGroup(path)) << path;
  }
  for (const std::string& path :
       {"/docker/" + id, "/system.slice/docker-" + id + ".scope",
        "/kubepods.slice/kubepods-pod7.slice/cri-containerd-" + id + ".scope",
        std::string("/machine.slice/one.scope"), std::string("/lxc.payload.one"),
        "/user.slice/user-0.slice/libpod-" + id + ".scope", std::string(), std::string("/system"),
        std::string("/system.slices/x")}) {
    EXPECT_FALSE(IsHostGroup(path)) << path;
  }
}

TEST(ControlGroups, AreFoundByTheirNumbers) {
  std::string root;
  for (const char* folder : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    std::ifstream file(std::string(folder) + "/cgroup.controllers");
    if (file.good()) root = folder;
  }
  if (root.empty()) GTEST_SKIP() << "the unified hierarchy is not mounted here";
  const ControlGroups groups;
  const auto number_of = [](const std::string& path) {
    struct stat found {};
    return stat(path.c_str(), &found) == 0 ? static_cast<uint64_t>(found.st_ino) : 0;
  };
  EXPECT_EQ(groups.PathOf(number_of(root)), "/");
  EXPECT_EQ(groups.PathOf(UINT64_MAX), std::nullopt);
  const std::string name = "/harmonaize-test-" + std::to_string(getpid());
  if (mkdir((root + name).c_str(), 0755) != 0) GTEST_SKIP() << "this user makes no control groups";
  mkdir((root + name + "/inner").c_str(), 0755);
  EXPECT_EQ(groups.PathOf(number_of(root + name + "/inner")), name + "/inner");
  rmdir((root + name + "/inner").c_str());
  rmdir((root + name).c_str());
  EXPECT_EQ(ControlGroups({"/proc", "/nonexistent"}).PathOf(1), std::nullopt);
}

}  // namespace
}  // namespace harmonaize::daemon
