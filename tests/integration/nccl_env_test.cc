// NCCL's env plugin, loaded as NCCL loads it, with real daemons, as several users, and in stock
// NCCL where there is one.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "plugins/nccl-abi/env.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_session.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;
using nccl_abi::EnvV1;
using nccl_abi::EnvV2;

constexpr char kSettings[] = "[nccl.settings]\nNCCL_SOCKET_IFNAME = \"lo\"\nNCCL_IB_TC = \"106\"\n";

/// What NCCL's log got.
std::string& Logged() {
  static std::string text;
  return text;
}

void WriteLogged(nccl_abi::LogLevel level, unsigned long subsystems, const char* /*file*/,
                 int /*line*/, const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  Logged() += std::to_string(static_cast<int>(level)) + " " + std::to_string(subsystems) + " " +
              line + "\n";
}

/// The plugin, as a process has loaded it.
struct Plugin {
  void* library = nullptr;
  const EnvV1* v1 = nullptr;
  const EnvV2* v2 = nullptr;

  static Plugin Load() {
    Plugin plugin;
    plugin.library = dlopen(NCCL_ENV_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    if (plugin.library == nullptr) {
      ADD_FAILURE() << dlerror();
      std::abort();
    }
    plugin.v1 = static_cast<EnvV1*>(dlsym(plugin.library, "ncclEnvPlugin_v1"));
    plugin.v2 = static_cast<EnvV2*>(dlsym(plugin.library, "ncclEnvPlugin_v2"));
    if (plugin.v1 == nullptr || plugin.v2 == nullptr) std::abort();
    return plugin;
  }
  bool BeginV1() const { return v1->init(2, 28, 9, "+cuda13.0") == ncclSuccess; }
  bool BeginV2() const { return v2->init(2, 30, 7, "", &WriteLogged) == ncclSuccess; }
  std::string Get(const char* name) const {
    const char* const value = v2->get_env(name);
    return value == nullptr ? "(none)" : value;
  }
};

/// Runs the body in a process of its own, since settings are read once in a process.
void Apart(const std::function<void()>& body) {
  const pid_t child = StartAs(geteuid(), [&] {
    body();
    return 0;
  });
  EXPECT_EQ(StatusOf(child), 0);
}

size_t EntriesOf(const char* folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(NcclEnv, GivesWhatTheProviderSetsInEachVersion) {
  const DaemonProcess daemon(kSettings);
  for (const bool is_v2 : {false, true}) {
    Apart([&] {
      const Plugin plugin = Plugin::Load();
      ASSERT_TRUE(is_v2 ? plugin.BeginV2() : plugin.BeginV1());
      EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), "lo");
      EXPECT_STREQ(plugin.v1->get_env("NCCL_IB_TC"), "106");
      EXPECT_EQ(plugin.v1->get_env("NCCL_IB_HCA"), nullptr);
      EXPECT_EQ(plugin.v1->get_env(""), nullptr);
      EXPECT_EQ(plugin.v1->get_env(nullptr), nullptr);
      EXPECT_EQ(Logged(), is_v2 ? "3 128 Harmonaize: the provider sets NCCL_IB_TC=106, "
                                  "NCCL_SOCKET_IFNAME=lo\n"
                                : "");
      EXPECT_EQ((is_v2 ? plugin.v2->finalize : plugin.v1->finalize)(), ncclSuccess);
    });
  }
}

TEST(NcclEnv, WhatTheTenantHasSetWins) {
  const DaemonProcess daemon(kSettings);
  Apart([] {
    setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
    const Plugin plugin = Plugin::Load();
    ASSERT_TRUE(plugin.BeginV2());
    EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), "eth7");
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
    EXPECT_EQ(Logged(),
              "3 128 Harmonaize: the provider sets NCCL_IB_TC=106; the program's own "
              "value holds of NCCL_SOCKET_IFNAME\n");
    // Also what it sets later, and what it sets to nothing.
    setenv("NCCL_IB_TC", "", 1);
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "");
    unsetenv("NCCL_IB_TC");
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
  });
  Apart([] {
    char file[] = "/tmp/harmonaize-nccl-env-XXXXXX";
    close(mkstemp(file));
    std::ofstream(file) << "NCCL_IB_TC=7\n";
    setenv("NCCL_CONF_FILE", file, 1);
    const Plugin plugin = Plugin::Load();
    ASSERT_TRUE(plugin.BeginV2());
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "7");
    EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), "lo");
    std::remove(file);
  });
}

TEST(NcclEnv, TheTenantSaysWhatTheProviderMaySet) {
  const DaemonProcess daemon(kSettings);
  const auto gives = [](const char* permission, const char* ifname, const char* tc,
                        const char* logged) {
    Apart([&] {
      setenv("HARMONAIZE_NCCL_SETTINGS", permission, 1);
      const Plugin plugin = Plugin::Load();
      ASSERT_TRUE(plugin.BeginV2());
      EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), ifname) << permission;
      EXPECT_EQ(plugin.Get("NCCL_IB_TC"), tc) << permission;
      EXPECT_NE(Logged().find(logged), std::string::npos) << permission << Logged();
      EXPECT_EQ(Logged().empty(), *logged == '\0') << permission << Logged();
    });
  };
  gives("all", "lo", "106", "sets NCCL_IB_TC=106, NCCL_SOCKET_IFNAME=lo\n");
  gives("", "lo", "106", "sets NCCL_IB_TC=106, NCCL_SOCKET_IFNAME=lo\n");
  gives("none", "(none)", "(none)", "");
  gives(" NCCL_SOCKET_IFNAME, NCCL_NET", "lo", "(none)",
        "sets NCCL_SOCKET_IFNAME=lo; HARMONAIZE_NCCL_SETTINGS keeps out NCCL_IB_TC\n");
  gives("NCCL_NET", "(none)", "(none)",
        "sets nothing; HARMONAIZE_NCCL_SETTINGS keeps out NCCL_IB_TC, NCCL_SOCKET_IFNAME\n");
  gives("ALL", "(none)", "(none)", "2 128 Harmonaize: HARMONAIZE_NCCL_SETTINGS is all, none or");
  gives("NCCL_IB_TC,noise", "(none)", "106", "noise is none of these, and allows nothing");
}

TEST(NcclEnv, WithoutADaemonIsTheEnvironment) {
  Apart([] {
    setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
    setenv("NCCL_IB_TC", "5", 1);
    const Plugin plugin = Plugin::Load();
    EXPECT_TRUE(plugin.BeginV1());
    EXPECT_TRUE(plugin.BeginV2());
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "5");
    EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), "(none)");
    EXPECT_EQ(Logged(), "");
  });
}

TEST(NcclEnv, BearsCallsInAnyOrder) {
  const DaemonProcess daemon(kSettings);
  Apart([] {
    setenv("NCCL_IB_HCA", "mlx5", 1);
    const Plugin plugin = Plugin::Load();
    EXPECT_EQ(plugin.Get("NCCL_IB_HCA"), "mlx5");
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "(none)");
    EXPECT_EQ(plugin.v1->finalize(), ncclSuccess);
    EXPECT_EQ(plugin.v2->init(2, 30, 7, nullptr, nullptr), ncclSuccess);
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
    // Two copies of NCCL in one process: the first to end takes nothing from the other.
    EXPECT_TRUE(plugin.BeginV1());
    EXPECT_EQ(plugin.v2->finalize(), ncclSuccess);
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
    EXPECT_EQ(plugin.v1->finalize(), ncclSuccess);
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "(none)");
    EXPECT_EQ(plugin.Get("NCCL_IB_HCA"), "mlx5");
    EXPECT_EQ(plugin.v1->finalize(), ncclSuccess);
  });
}

TEST(NcclEnv, CanBeUnloadedAndLoadedAgain) {
  const DaemonProcess daemon(kSettings);
  Apart([] {
    const char* first = nullptr;
    for (int i = 0; i < 3; ++i) {
      const Plugin plugin = Plugin::Load();
      ASSERT_TRUE(plugin.BeginV2());
      const char* const value = plugin.v2->get_env("NCCL_IB_TC");
      ASSERT_NE(value, nullptr);
      // The text from before is still there, and the same one serves again.
      if (first == nullptr) first = value;
      EXPECT_EQ(value, first);
      plugin.v2->finalize();
      EXPECT_STREQ(first, "106");
      dlclose(plugin.library);
    }
  });
}

TEST(NcclEnv, LeavesNeitherThreadsNorDescriptorsAndLetsThemFork) {
  const DaemonProcess daemon(kSettings);
  Apart([] {
    const Plugin plugin = Plugin::Load();
    const size_t descriptors = EntriesOf("/proc/self/fd");
    const size_t threads = EntriesOf("/proc/self/task");
    ASSERT_TRUE(plugin.BeginV2());
    EXPECT_EQ(EntriesOf("/proc/self/fd"), descriptors);
    EXPECT_EQ(EntriesOf("/proc/self/task"), threads);
    Apart([&] {
      EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
      EXPECT_TRUE(plugin.BeginV1());
      EXPECT_EQ(plugin.Get("NCCL_SOCKET_IFNAME"), "lo");
      EXPECT_EQ(plugin.v1->finalize(), ncclSuccess);
      EXPECT_EQ(plugin.v1->finalize(), ncclSuccess);
      EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "(none)");
    });
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "106");
  });
}

TEST(NcclEnv, ServesManyThreadsWhileOneBeginsAndEnds) {
  const DaemonProcess daemon(kSettings);
  Apart([] {
    const Plugin plugin = Plugin::Load();
    ASSERT_TRUE(plugin.BeginV1());
    std::atomic<bool> ends{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 6; ++i) {
      readers.emplace_back([&] {
        while (!ends.load(std::memory_order_relaxed)) {
          if (plugin.Get("NCCL_IB_TC") != "106" || plugin.Get("NCCL_NET") != "(none)") ++wrong;
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(i % 2 == 0 ? plugin.BeginV1() : plugin.BeginV2());
      plugin.v1->finalize();
    }
    ends.store(true);
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
  });
}

TEST(NcclEnv, AStoppedDaemonStopsNobody) {
  const DaemonProcess daemon(kSettings);
  ASSERT_EQ(kill(daemon.pid(), SIGSTOP), 0);
  Apart([] {
    // Signals, as a profiler's, do not prolong the wait.
    struct sigaction ignore {};
    ignore.sa_handler = [](int) {};
    sigaction(SIGALRM, &ignore, nullptr);
    const itimerval often{{0, 10'000}, {0, 10'000}};
    setitimer(ITIMER_REAL, &often, nullptr);
    const Plugin plugin = Plugin::Load();
    ASSERT_TRUE(plugin.BeginV2());
    EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "(none)");
    EXPECT_NE(Logged().find("did not answer within"), std::string::npos) << Logged();
  });
  EXPECT_EQ(kill(daemon.pid(), SIGCONT), 0);
}

TEST(NcclEnv, AnOlderDaemonSetsNothing) {
  DaemonProcess::SetArguments({"--speak-to-clients", "19-22"});
  {
    const DaemonProcess daemon(kSettings);
    Apart([] {
      const Plugin plugin = Plugin::Load();
      ASSERT_TRUE(plugin.BeginV2());
      EXPECT_EQ(plugin.Get("NCCL_IB_TC"), "(none)");
    });
  }
  DaemonProcess::SetArguments({});
}

TEST(NcclEnv, SettingsChangeOnSighup) {
  const DaemonProcess daemon(kSettings, true);
  const auto reload = [&](const std::string& settings) {
    std::ofstream(daemon.folder() + "/provider.toml") << settings;
    EXPECT_EQ(kill(daemon.pid(), SIGHUP), 0);
  };
  const auto expect = [](const char* tc) {
    Apart([&] {
      const Plugin plugin = Plugin::Load();
      ASSERT_TRUE(plugin.BeginV2());
      EXPECT_EQ(plugin.Get("NCCL_IB_TC"), tc);
    });
  };
  expect("106");
  reload("[nccl.settings]\nNCCL_IB_TC = \"7\"\n");
  EXPECT_TRUE(daemon.WaitForLog("settings for NCCL are read anew"));
  // The log is written before the settings change.
  EXPECT_TRUE(Eventually(60, [] {
    const pid_t child = StartAs(geteuid(), [] {
      const Plugin plugin = Plugin::Load();
      return plugin.BeginV2() && plugin.Get("NCCL_IB_TC") == "7" ? 0 : 2;
    });
    return StatusOf(child) == 0;
  }));
  reload("[nccl.settings]\nNCCL_NET_PLUGIN = \"/tmp/evil.so\"\n");
  EXPECT_TRUE(daemon.WaitForLog("settings for NCCL stay as they were"));
  expect("7");
}

/// A request for settings that is not as long as it should be.
struct TooLong {
  static constexpr MessageType kType = MessageType::kNcclSettings;
  uint64_t words[2] = {};
};

TEST(NcclEnv, TheDaemonAnswersInASessionToo) {
  const DaemonProcess daemon(kSettings);
  HostileSession session(daemon.socket_path());
  EXPECT_TRUE(session.Ask(NcclSettingsRequest{}).ok());
  EXPECT_FALSE(session.Ask(TooLong{}).ok());
  EXPECT_TRUE(session.Ask(NcclSettingsRequest{}).ok()) << "a wrong request ends no session";
}

// ---------------------------------------------------------------------------------------------
// Users

/// The host program and the plugin in a folder that all users can reach.
class ForAllUsers {
 public:
  ForAllUsers() {
    char folder[] = "/tmp/harmonaize-nccl-env-users-XXXXXX";
    folder_ = mkdtemp(folder);
    chmod(folder_.c_str(), 0755);
    fs::copy_file(NCCL_ENV_HOST, host());
    fs::copy_file(NCCL_ENV_PLUGIN_FILE, plugin());
  }
  ~ForAllUsers() { fs::remove_all(folder_); }
  std::string host() const { return folder_ + "/host"; }
  std::string plugin() const { return folder_ + "/plugin.so"; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

class NcclEnvUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  }
};

TEST_F(NcclEnvUsers, EachUserGetsTheSameUnlessItForbidsThat) {
  const DaemonProcess daemon(kSettings);
  ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  const ForAllUsers files;
  const std::vector<std::string> words = {files.host(), files.plugin(), "NCCL_SOCKET_IFNAME"};
  const Ran alice = RunAs(kAlice, words, {{"HARMONAIZE_SOCKET", daemon.socket_path()}});
  const Ran bob =
      RunAs(kBob, words,
            {{"HARMONAIZE_SOCKET", daemon.socket_path()}, {"HARMONAIZE_NCCL_SETTINGS", "none"}});
  EXPECT_EQ(alice.text, "NCCL_SOCKET_IFNAME=lo\n");
  EXPECT_EQ(bob.text, "NCCL_SOCKET_IFNAME is not set\n");
}

TEST_F(NcclEnvUsers, ADaemonOfAnotherUsersSetsNothing) {
  const ForAllUsers files;
  const std::string folder = files.folder() + "/bob";
  fs::create_directory(folder);
  ASSERT_EQ(chown(folder.c_str(), kBob, kBob), 0);
  fs::copy_file(HARMONAIZED_PROGRAM, files.folder() + "/harmonaized");
  std::ofstream(files.folder() + "/provider.toml")
      << kSettings << "[calibration]\nagain = false\n[state]\npath = \"" << folder
      << "/state\"\n[workers]\ncount = 1\n";
  const std::string socket = folder + "/d.sock";
  const pid_t daemon = StartAs(kBob, [&] {
    execl((files.folder() + "/harmonaized").c_str(), "harmonaized", "--socket", socket.c_str(),
          "--config", (files.folder() + "/provider.toml").c_str(), nullptr);
    return 127;
  });
  const std::vector<std::string> words = {files.host(), files.plugin(), "NCCL_SOCKET_IFNAME"};
  // Bob's own programs believe it, once it is there.
  EXPECT_TRUE(Eventually(60, [&] {
    return RunAs(kBob, words, {{"HARMONAIZE_SOCKET", socket}}).text == "NCCL_SOCKET_IFNAME=lo\n";
  }));
  const Ran alice = RunAs(kAlice, words, {{"HARMONAIZE_SOCKET", socket}});
  EXPECT_EQ(alice.text, "NCCL_SOCKET_IFNAME is not set\n");
  kill(daemon, SIGTERM);
  EXPECT_EQ(StatusOf(daemon), 0);
}

TEST_F(NcclEnvUsers, WhoStartsASetuidProgramSteersNothing) {
  if (const std::string why = PrivateHost::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  PrivateHost::Run({HARMONAIZED_PROGRAM, NCCL_ENV_HOST, NCCL_ENV_PLUGIN_FILE}, [] {
    // A daemon at the place where all look, and one that Alice names.
    std::ofstream("/tmp/provider.toml")
        << kSettings << "[calibration]\nagain = false\n[state]\npath = \"/run/state\"\n";
    std::ofstream("/etc/nccl.conf") << "NCCL_NET=Socket\n";
    const pid_t daemon = StartAs(0, [] {
      execl(HARMONAIZED_PROGRAM, "harmonaized", "--socket", "/run/harmonaize/harmonaized.sock",
            "--config", "/tmp/provider.toml", nullptr);
      return 127;
    });
    const fs::path program = "/tmp/host-of-carol";
    fs::copy_file(NCCL_ENV_HOST, program);
    ASSERT_EQ(chown(program.c_str(), kCarol, kCarol), 0);
    ASSERT_EQ(chmod(program.c_str(), 04755), 0);
    const std::string plugin = "/tmp/bin/" + fs::path(NCCL_ENV_PLUGIN_FILE).filename().string();
    const std::vector<std::string> words = {
        program, plugin, "NCCL_SOCKET_IFNAME", "NCCL_IB_TC", "NCCL_NET_PLUGIN", "NCCL_NET"};
    EXPECT_TRUE(Eventually(60, [] { return fs::exists("/run/harmonaize/harmonaized.sock"); }));
    const Ran ran = RunAs(kAlice, words,
                          {{"HARMONAIZE_SOCKET", "/nonexistent"},
                           {"HARMONAIZE_NCCL_SETTINGS", "NCCL_IB_TC"},
                           {"NCCL_SOCKET_IFNAME", "chosen-by-alice"},
                           {"NCCL_NET_PLUGIN", "/tmp/evil.so"}});
    // A leak sanitizer complains after that: the kernel lets nobody look into such a process.
    EXPECT_TRUE(ran.text.starts_with(
        "NCCL_SOCKET_IFNAME=lo\nNCCL_IB_TC=106\nNCCL_NET_PLUGIN is not set\nNCCL_NET=Socket\n"))
        << ran.text;
    kill(daemon, SIGTERM);
    EXPECT_EQ(StatusOf(daemon), 0);
  });
}

// ---------------------------------------------------------------------------------------------
// Stock NCCL

/// Returns stock NCCL's library, or "": HARMONAIZE_STOCK_NCCL names it, or it lies where CUDA's
/// packages put it.
std::string StockNccl() {
  const char* const named = getenv("HARMONAIZE_STOCK_NCCL");
  if (named != nullptr) return named;
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

/// Returns the address in a unique id that stock NCCL makes in an environment with `more`.
Ran IdOfStock(const std::string& library, std::map<std::string, std::string> more) {
  return RunAs(geteuid(), {NCCL_ENV_HOST, "--stock", library}, more);
}

TEST(NcclEnvStock, TheProvidersSettingTakesEffect) {
  const std::string library = StockNccl();
  if (library.empty()) {
    GTEST_SKIP() << "no stock NCCL here: HARMONAIZE_STOCK_NCCL names a libnccl.so.2";
  }
  const std::string alone = IdOfStock(library, {}).text;
  const int version = std::atoi(alone.c_str());
  if (version < 22807) GTEST_SKIP() << library << " cannot load env plugins: " << alone;
  if (alone.find(" 127.") != std::string::npos) GTEST_SKIP() << "this host has loopback alone";
  const DaemonProcess daemon(kSettings);
  const std::map<std::string, std::string> with_plugin = {
      {"HARMONAIZE_SOCKET", daemon.socket_path()},
      {"NCCL_ENV_PLUGIN", "harmonaize"},
      {"LD_LIBRARY_PATH", fs::path(NCCL_ENV_PLUGIN_FILE).parent_path()},
      {"NCCL_DEBUG", "INFO"},
      {"NCCL_DEBUG_SUBSYS", "ENV,INIT"}};
  const std::string text = IdOfStock(library, with_plugin).text;
  EXPECT_NE(text.find(std::to_string(version) + " 127.0.0.1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ENV/Plugin: Using Harmonaize (v"), std::string::npos) << text;
  if (version >= 23000) {
    EXPECT_NE(text.find("Harmonaize: the provider sets NCCL_IB_TC=106, NCCL_SOCKET_IFNAME=lo"),
              std::string::npos)
        << text;
  }
  // The tenant's own setting wins in NCCL, too.
  auto forbidden = with_plugin;
  forbidden["HARMONAIZE_NCCL_SETTINGS"] = "NCCL_IB_TC";
  EXPECT_NE(IdOfStock(library, forbidden).text.find(alone), std::string::npos);
  // And without a daemon NCCL is as it was.
  auto apart = with_plugin;
  apart["HARMONAIZE_SOCKET"] = "/nonexistent";
  EXPECT_NE(IdOfStock(library, apart).text.find(alone), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::testing
