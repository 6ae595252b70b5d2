// Which of the places where a user or an administrator can set something counts.

#include "src/base/settings.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace harmonaize {
namespace {

/// The exit status of a child that could not do what a test needs.
constexpr int kCannot = 77;

TEST(Settings, LinesOfAFile) {
  SettingMap settings = {{"TAKEN", "already"}};
  AddSettings(
      "# NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\nNCCL_DEBUG=TRACE\n\nNCCL_SOCKET_IFNAME==eth0\n"
      "NONE\n=nothing\nTAKEN=anew\nEMPTY=\nSPACE = x\nDOS=value\r\nNOTE=a # b\nLAST=no newline",
      &settings);
  const SettingMap expected = {
      {"TAKEN", "already"}, {"NCCL_DEBUG", "INFO"}, {"NCCL_SOCKET_IFNAME", "=eth0"},
      {"EMPTY", ""},        {"SPACE ", " x"},       {"DOS", "value"},
      {"NOTE", "a # b"},    {"LAST", "no newline"}};
  EXPECT_EQ(settings, expected);
}

/// The probe, with an environment, a home and an /etc of its own.
class SettingsOfAProcess : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harmonaize-settings-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    ASSERT_EQ(chmod(name, 0755), 0);
    for (const char* part : {"home", "etc"}) std::filesystem::create_directory(folder_ / part);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const char* file, const char* text) { std::ofstream(folder_ / file) << text; }

  /// What the probe prints of the settings A to D, in words; "cannot" where `prepare`, which runs
  /// in its process before it, says no.
  std::string Ask(
      std::vector<std::string> environment,
      const std::function<bool()>& prepare = [] { return true; },
      const std::string& probe = BASE_SETTING_PROBE) {
    environment.push_back("HOME=" + (folder_ / "home").string());
    const std::string answer = folder_ / "answer";
    const pid_t child = fork();
    if (child == 0) {
      if (!prepare()) _exit(kCannot);
      if (std::freopen(answer.c_str(), "w", stdout) == nullptr) _exit(kCannot);
      std::vector<char*> variables;
      for (std::string& variable : environment) variables.push_back(variable.data());
      variables.push_back(nullptr);
      execle(probe.c_str(), "probe", "A", "B", "C", "D", nullptr, variables.data());
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) return "cannot";
    EXPECT_EQ(status, 0);
    std::ifstream file(answer);
    std::string words;
    for (std::string line; std::getline(file, line);) words += words.empty() ? line : " " + line;
    return words;
  }

  /// Puts the folder's etc/nccl.conf into the place of the system's, for this process alone. Needs
  /// root.
  bool ReplaceSystemFile() const {
    const std::string etc = folder_ / "etc";
    const std::string layers = "lowerdir=" + etc + ":/etc";
    return unshare(CLONE_NEWNS) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("overlay", "/etc", "overlay", MS_RDONLY, layers.c_str()) == 0;
  }

  std::filesystem::path folder_;
};

TEST_F(SettingsOfAProcess, TheEnvironmentComesBeforeTheUsersFile) {
  Write("home/.nccl.conf", "A=home\nB=home\nC=home\n");
  EXPECT_EQ(Ask({"A=environment", "B="}), "the user's rights environment  home (none)");
}

TEST_F(SettingsOfAProcess, ANamedFileTakesThePlaceOfTheHomes) {
  Write("home/.nccl.conf", "A=home\n");
  Write("named.conf", "B=named\n");
  const std::string path = folder_ / "named.conf";
  EXPECT_EQ(Ask({"NCCL_CONF_FILE=" + path}), "the user's rights (none) named (none) (none)");
  EXPECT_EQ(Ask({"NCCL_CONF_FILE=" + path + ".not"}),
            "the user's rights (none) (none) (none) (none)");
  EXPECT_EQ(Ask({"NCCL_CONF_FILE="}), "the user's rights home (none) (none) (none)");
}

TEST_F(SettingsOfAProcess, AFileWithoutAnEndIsLeft) {
  EXPECT_EQ(Ask({"NCCL_CONF_FILE=/dev/zero"}), "the user's rights (none) (none) (none) (none)");
}

TEST_F(SettingsOfAProcess, TheSystemsFileSaysWhatTheUsersDoesNot) {
  Write("home/.nccl.conf", "B=home\n");
  Write("etc/nccl.conf", "A=system\nB=system\nC=system\n");
  const std::string answer = Ask({"A=environment"}, [this] { return ReplaceSystemFile(); });
  if (answer == "cannot") GTEST_SKIP() << "needs root and a mount namespace";
  EXPECT_EQ(answer, "the user's rights environment home system (none)");
}

TEST_F(SettingsOfAProcess, AProgramWithMoreRightsThanItsUserIsNotSteeredByIt) {
  Write("home/.nccl.conf", "B=home\n");
  Write("etc/nccl.conf", "C=system\n");
  // One that runs as another user than root, who starts it.
  const std::string probe = folder_ / "probe";
  std::filesystem::copy_file(BASE_SETTING_PROBE, probe);
  constexpr uid_t kNobody = 65534;
  if (chown(probe.c_str(), kNobody, kNobody) != 0 || chmod(probe.c_str(), 04755) != 0) {
    GTEST_SKIP() << "needs root";
  }
  const std::string answer = Ask(
      {"A=environment"}, [this] { return ReplaceSystemFile(); }, probe);
  if (answer == "cannot") GTEST_SKIP() << "needs root and a mount namespace";
  if (answer.starts_with("the user's"))
    GTEST_SKIP() << "the folder lets no program change its user";
  EXPECT_EQ(answer, "more rights (none) (none) system (none)");
}

}  // namespace
}  // namespace harmonaize
