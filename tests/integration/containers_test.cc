// Ranks in real containers, by bubblewrap and podman, whose root has neither the build folder nor
// /run: library, socket and variables come by `harmonaize run --inject` alone. Where a container
// runtime is missing, or may not run here, its tests skip.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/run/private_daemon.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "tests/support/other_users.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A benchmark that checks its results, and all that it is linked to but libnccl.so.2.
constexpr char kProgramInside[] = "/all_reduce_perf";
constexpr char kAllRight[] = "Out of bounds values : 0 OK";

Words Joined(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Returns bwrap with a root of its own that has this host's programs and libraries, and `program`.
Words Bubblewrap(const std::string& program) {
  Words words = {"bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--proc", "/proc"};
  for (const char* folder : {"/bin", "/lib", "/lib64", "/sbin", "/usr"}) {
    std::error_code error;
    if (!fs::exists(folder, error)) continue;
    if (fs::is_symlink(folder, error)) {
      words.insert(words.end(), {"--symlink", fs::read_symlink(folder).string(), folder});
    } else {
      words.insert(words.end(), {"--ro-bind", folder, folder});
    }
  }
  words.insert(words.end(), {"--dev", "/dev", "--ro-bind", program, kProgramInside});
  return words;
}

Words Reduction() {
  return {kProgramInside, "-b", "4K", "-e", "64K", "-f", "4", "-n", "3", "-w", "1", "-c", "1"};
}

/// Returns why the command does not run here; "" where it does.
std::string WhyNot(Words words) {
  const std::string program = words.front();
  words.erase(words.begin());
  ChildSpec spec;
  spec.arguments = Joined({{program}, words});
  spec.environment = TestEnvironment().Lines();
  if (!ChildProcess::Start(spec).ok()) return fmt::format("there is no {}", program);
  Launched run(words, program);
  const int status = run.Wait();
  return status == 0 ? "" : fmt::format("{} ends with {}: {}", program, status, run.error());
}

class BubblewrapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = WhyNot(Joined({Bubblewrap(ALL_REDUCE_PERF), {"true"}}));
    if (!why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(BubblewrapTest, RanksReduceThroughAPrivateDaemon) {
  Launched run(Joined({{"run", "-n", "2", "--inject", "--daemon=private", "--"},
                       Bubblewrap(ALL_REDUCE_PERF),
                       {"--"},
                       Reduction()}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find(kAllRight), std::string::npos) << run.output() << run.error();
}

TEST_F(BubblewrapTest, RanksHaveNoLibraryUnlessItIsInjected) {
  Launched run(Joined({{"run", "-n", "2", "--daemon=private", "--"},
                       Bubblewrap(ALL_REDUCE_PERF),
                       {"--"},
                       Reduction()}));
  EXPECT_EQ(run.Wait(), 127) << run.output();
  EXPECT_NE(run.error().find("libnccl.so.2: cannot open shared object"), std::string::npos)
      << run.error();
}

TEST_F(BubblewrapTest, ARankMayNotWriteWhatItIsGiven) {
  const std::string script =
      "for file in \"$LD_PRELOAD\" \"$HARMONAIZE_WRITER\" /run/harmonaize/harmonaized.sock; do "
      "chmod 777 $file 2>&1; "
      "done; "
      "ls /run/harmonaize";
  Launched run(Joined({{"run", "--inject", "--daemon=private", "--"},
                       Bubblewrap(ALL_REDUCE_PERF),
                       {"sh", "-c", script}}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(run.output(),
            "chmod: changing permissions of '/opt/harmonaize/lib/libharmonaize-preload.so': "
            "Read-only file system\n"
            "chmod: changing permissions of '/opt/harmonaize/bin/harmonaize-writer': "
            "Read-only file system\n"
            "chmod: changing permissions of '/run/harmonaize/harmonaized.sock': Read-only file "
            "system\n"
            "harmonaized.sock\n"
            "http.sock\n");
}

// The writer comes from this host; its answer to the requirements, by the daemon's HTTP socket.
TEST_F(BubblewrapTest, RanksStoreCheckpointsAsTheirRequirementsState) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  const std::string requirements = folder->path() + "/job.toml";
  std::ofstream(requirements) << "[checkpoint]\nformat = \"dcp\"\n";
  ASSERT_TRUE(fs::create_directory(folder->path() + "/data"));
  Launched run(Joined(
      {{"run", "-n", "2", "--inject", "--daemon=private", "--requirements", requirements, "--"},
       Bubblewrap(STORE_RANK),
       {"--bind", folder->path() + "/data", "/data", "--", kProgramInside, "/data/store"}}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(SortedLines(run.output()),
            (std::vector<std::string>{"[0] stored and read", "[1] stored and read"}))
      << run.error();
  const Result<std::vector<checkpoint::CheckpointSummary>> list =
      checkpoint::ListCheckpoints(folder->path() + "/data/store");
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_EQ(list->size(), 1u);
  EXPECT_TRUE(list->front().is_committed);
  EXPECT_EQ(list->front().format, checkpoint::StoreFormat::kDcp);
}

// In the user namespace the daemon's user is unknown, so the socket's name alone makes it believed.
TEST_F(BubblewrapTest, AnotherUsersRanksReduceThroughTheProvidersDaemon) {
  if (const std::string why = PrivateHost::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  PrivateHost::Run(
      {HARMONAIZE_PROGRAM, HARMONAIZED_PROGRAM, ALL_REDUCE_PERF, PRELOAD_LIBRARY}, [&] {
        // Users may not reach the build folder, and see copies.
        ASSERT_TRUE(fs::create_directory("/tmp/lib"));
        ASSERT_TRUE(fs::copy_file("/tmp/bin/libharmonaize-preload.so",
                                  "/tmp/lib/libharmonaize-preload.so"));
        ASSERT_TRUE(fs::create_directory("/run/harmonaize"));
        PrivateDaemon::Options options;
        options.program = "/tmp/bin/harmonaized";
        options.folder = "/run/harmonaize";
        ::sigemptyset(&options.signal_mask);
        Result<PrivateDaemon> daemon = PrivateDaemon::Start(options);
        ASSERT_TRUE(daemon.ok()) << daemon.status().message();
        const Words command = Bubblewrap("/tmp/bin/all_reduce_perf");
        const Ran probe = RunAs(kAlice, Joined({{"/usr/bin/env"}, command, {"true"}}));
        if (probe.status != 0) GTEST_SKIP() << "users may not make containers here: " << probe.text;
        const Ran run =
            RunAs(kAlice, Joined({{"/tmp/bin/harmonaize", "run", "-n", "2", "--inject", "--"},
                                  command,
                                  {"--clearenv", "--"},
                                  Reduction()}));
        EXPECT_EQ(run.status, 0) << run.text;
        EXPECT_NE(run.text.find(kAllRight), std::string::npos) << run.text;
        EXPECT_TRUE(daemon->Stop(std::chrono::seconds(30)).ok());
      });
}

/// podman with a storage of the test's own, and a root folder in place of an image.
class PodmanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    MakeRoot();
    std::string why;
    for (const char* runtime : {"crun", "runc"}) {
      podman_ = {"podman",    "--storage-driver", "vfs",       "--root", Path("storage"),
                 "--runroot", Path("run"),        "--runtime", runtime};
      why = WhyNot(Joined({Container(), {"true"}}));
      if (why.empty()) return;
    }
    GTEST_SKIP() << why;
  }

  // podman removes its containers behind its own end, and would seek its storage for ever.
  void TearDown() override {
    if (IsSkipped()) return;
    for (int i = 0; i < 300 && !Listed({"--all"}).empty(); ++i) ::usleep(10'000);
    EXPECT_EQ(Listed({"--all"}), "");
  }

  void MakeRoot() {
    for (const char* name : {"root", "root/usr"}) fs::create_directory(Path(name));
    for (const char* name : {"bin", "lib", "lib64", "sbin"}) {
      fs::create_symlink(fmt::format("usr/{}", name), Path("root/") + name);
    }
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  /// Returns a command that lacks the program to run in the container. Its limits are low ones:
  /// podman may not be allowed to raise them as it does by itself.
  Words Container() const {
    return Joined(
        {podman_,
         {"run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "-v",
          "/usr:/usr:ro", "-v", fmt::format("{}:{}:ro", ALL_REDUCE_PERF, kProgramInside),
          "--rootfs", Path("root")}});
  }

  /// Returns the ids of the containers that run, or that these options of `podman ps` choose.
  std::string Listed(const Words& options = {}) const {
    Words words = Joined({podman_, {"ps", "--quiet"}, options});
    words.erase(words.begin());
    Launched list(words, "podman");
    EXPECT_EQ(list.Wait(), 0) << list.error();
    return list.output();
  }

  TemporaryFolder folder_;
  Words podman_;
};

TEST_F(PodmanTest, RanksReduceThroughAPrivateDaemon) {
  Launched run(
      Joined({{"run", "-n", "2", "--inject", "--daemon=private", "--"}, Container(), Reduction()}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find(kAllRight), std::string::npos) << run.output() << run.error();
  EXPECT_EQ(Listed(), "");
}

TEST_F(PodmanTest, RanksHaveNoLibraryUnlessItIsInjected) {
  Launched run(Joined({{"run", "-n", "2", "--daemon=private", "--"}, Container(), Reduction()}));
  EXPECT_EQ(run.Wait(), 127) << run.output();
  EXPECT_NE(run.error().find("libnccl.so.2: cannot open shared object"), std::string::npos)
      << run.error();
}

TEST_F(PodmanTest, ContainersEndWithAJobThatIsKilled) {
  // The first process of a container gets no signal that it does not handle.
  Launched run(Joined({{"run", "-n", "2", "--inject", "--daemon=private", "--"},
                       Container(),
                       {"sh", "-c", "trap '' TERM INT; echo rank $RANK is up; sleep 1000"}}));
  ASSERT_TRUE(run.ReadUntil("rank 0 is up")) << run.error();
  ASSERT_TRUE(run.ReadUntil("rank 1 is up")) << run.error();
  EXPECT_EQ(std::ranges::count(Listed(), '\n'), 2);
  run.Signal(SIGINT);
  ASSERT_TRUE(run.ReadUntil("passed on to all ranks")) << run.error();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130) << run.error();
  EXPECT_EQ(Listed(), "");
}

}  // namespace
}  // namespace harmonaize::testing
