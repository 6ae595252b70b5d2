#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/ipc/control_socket.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

// An installation of its own, so that what lies beside the program is the test's choice.
class RunInstalled : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    fs::create_directory(Path("bin"));
    fs::create_directory(Path("lib"));
    fs::copy_file(HARMONAIZE_PROGRAM, Path("bin/harmonaize"));
    environment_ = TestEnvironment();
    environment_.Set("TMPDIR", folder_.path());
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // A daemon that does what a daemon must as far as the launcher sees.
  void InstallDaemon(const std::string& body) {
    std::ofstream(Path("bin/harmonaized")) << "#!/usr/bin/env python3\n"
                                           << "import os, signal, socket, sys, time\n"
                                           << body;
    fs::permissions(Path("bin/harmonaized"), fs::perms::owner_all);
  }

  Launched Launch(std::vector<std::string> words) {
    return Launched(std::move(words), Path("bin/harmonaize"), &environment_);
  }

  TemporaryFolder folder_;
  Environment environment_;
};

constexpr char kGoodDaemon[] = R"(
assert sys.argv[1] == "--socket"
open(os.environ["TMPDIR"] + "/pid", "w").write(str(os.getpid()))
def stop(*_):
    print("daemon stops", file=sys.stderr, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.sendto(b"STATUS=listening\nREADY=1", os.environ["NOTIFY_SOCKET"])
print("daemon is up", file=sys.stderr, flush=True)
time.sleep(60)
)";

TEST_F(RunInstalled, PreloadsTheLibraryBesideIt) {
  std::ofstream(Path("lib/libharmonaize-preload.so"));
  environment_.Set("LD_PRELOAD", "");
  Launched run = Launch({"run", "--daemon=none", "sh", "-c", "echo $LD_PRELOAD"});
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.output(), fs::canonical(Path("lib/libharmonaize-preload.so")).string() + "\n");
}

TEST_F(RunInstalled, SaysWhereItSoughtTheLibrary) {
  Launched run = Launch({"run", "--daemon=none", "true"});
  EXPECT_EQ(run.Wait(), 125);
  EXPECT_NE(run.error().find("/lib/libharmonaize-preload.so"), std::string::npos) << run.error();
}

TEST_F(RunInstalled, StartsAndStopsAPrivateDaemon) {
  InstallDaemon(kGoodDaemon);
  Launched run = Launch({"run", "-n", "2", "--no-preload", "sh", "-c",
                         "echo $HARMONAIZE_SOCKET; test -d ${HARMONAIZE_SOCKET%/*}; sleep 0.2"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.error().find("no Harmonaize daemon listens at /nonexistent/harmonaized.sock"),
            std::string::npos);
  EXPECT_NE(run.error().find("started a private daemon (pid "), std::string::npos);
  EXPECT_NE(run.error().find("[harmonaized] daemon is up"), std::string::npos);
  const std::vector<std::string> lines = SortedLines(run.output());
  ASSERT_EQ(lines.size(), 2U) << run.output();
  const std::string socket = lines[0].substr(4);
  EXPECT_EQ(socket, lines[1].substr(4));
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
  pid_t daemon = 0;
  std::ifstream(Path("pid")) >> daemon;
  ASSERT_GT(daemon, 0);
  EXPECT_TRUE(WaitUntilGone(daemon));
}

TEST_F(RunInstalled, CleansUpAfterALauncherThatWasKilled) {
  InstallDaemon(kGoodDaemon);
  Launched run = Launch({"run", "--no-preload", "sh", "-c",
                         "sleep 1000 & echo pid $! $HARMONAIZE_SOCKET; echo go; wait"});
  ASSERT_TRUE(run.ReadUntil("go\n"));
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  std::istringstream words(run.output());
  std::string word;
  std::string socket;
  pid_t grandchild = 0;
  words >> word >> grandchild >> socket;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(WaitUntilGone(grandchild));
  pid_t daemon = 0;
  std::ifstream(Path("pid")) >> daemon;
  EXPECT_TRUE(WaitUntilGone(daemon));
  for (int i = 0; i < 500 && fs::exists(fs::path(socket).parent_path()); ++i) ::usleep(10'000);
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
}

TEST_F(RunInstalled, ReportsADaemonThatDoesNotComeUp) {
  InstallDaemon("print('no such thing as a port', file=sys.stderr)\nsys.exit(4)\n");
  Launched run = Launch({"run", "--no-preload", "--daemon=private", "true"});
  EXPECT_EQ(run.Wait(), 125);
  EXPECT_NE(run.error().find("exited with status 4"), std::string::npos) << run.error();
  EXPECT_NE(run.error().find("no such thing as a port"), std::string::npos) << run.error();
}

TEST_F(RunInstalled, CanBeInterruptedWhileTheDaemonStarts) {
  InstallDaemon("print('starting', flush=True)\ntime.sleep(60)\n");
  Launched run = Launch({"run", "--no-preload", "--daemon=private", "true"});
  ::usleep(200'000);
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130) << run.error();
}

TEST_F(RunInstalled, SaysThatThePrivateDaemonDied) {
  InstallDaemon(std::string(kGoodDaemon) + "\n");
  Launched run =
      Launch({"run", "--no-preload", "sh", "-c", "kill -9 $(cat $TMPDIR/pid); sleep 0.3; exit 5"});
  EXPECT_EQ(run.Wait(), 5);
  EXPECT_NE(run.error().find("was killed by SIGKILL (Killed) while the job ran"), std::string::npos)
      << run.error();
}

TEST_F(RunInstalled, UsesTheDaemonThatListens) {
  const std::string socket = Path("harmonaized.sock");
  const Result<FileDescriptor> listener = ListenAt(socket, 0600);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  environment_.Set("HARMONAIZE_SOCKET", socket);
  Launched run = Launch({"run", "--no-preload", "sh", "-c", "echo $HARMONAIZE_SOCKET"});
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.output(), socket + "\n");
  EXPECT_EQ(run.error(), "");
}

TEST_F(RunInstalled, SaysThatThereIsNoDaemonToStart) {
  Launched run = Launch({"run", "--no-preload", "true"});
  EXPECT_EQ(run.Wait(), 125);
  EXPECT_NE(run.error().find("no Harmonaize daemon listens at /nonexistent/harmonaized.sock"),
            std::string::npos);
  EXPECT_NE(run.error().find("bin/harmonaized"), std::string::npos);
}

TEST(Run, RefusesAWrongCommandLine) {
  EXPECT_EQ(Launched({"run"}).Wait(), 2);
  EXPECT_EQ(Launched({"run", "-n", "0", "true"}).Wait(), 2);
  EXPECT_EQ(Launched({"run", "-n", "x", "true"}).Wait(), 2);
  EXPECT_EQ(Launched({"run", "--nonsense", "true"}).Wait(), 2);
  EXPECT_EQ(Launched({"run", "--daemon=maybe", "true"}).Wait(), 2);
  EXPECT_EQ(Launched({"run", "--env", "9=1", "true"}).Wait(), 2);
  EXPECT_EQ(Launched({"walk"}).Wait(), 2);
  EXPECT_EQ(Launched({}).Wait(), 2);
}

TEST(Run, HelpSucceeds) {
  Launched help({"run", "--help"});
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_NE(help.output().find("Exit status"), std::string::npos);
  EXPECT_EQ(Launched({"--version"}).Wait(), 0);
}

TEST(Run, TellsTheRanksTheJobsNameAndKind) {
  const std::string show = "echo \"$HARMONAIZE_JOB, $HARMONAIZE_JOB_KIND\"";
  Environment environment = TestEnvironment();
  environment.Set("HARMONAIZE_JOB", "outer");
  environment.Set("HARMONAIZE_JOB_KIND", "batch");
  Launched named(RunScript({"--name", "my llama", "--kind", "training"}, show), HARMONAIZE_PROGRAM,
                 &environment);
  EXPECT_EQ(named.Wait(), 0) << named.error();
  EXPECT_EQ(named.output(), "my llama, training\n");
  Launched inherited(RunScript({}, show), HARMONAIZE_PROGRAM, &environment);
  EXPECT_EQ(inherited.Wait(), 0) << inherited.error();
  EXPECT_EQ(inherited.output(), "outer, batch\n");
}

TEST(Run, RefusesNamesAndKindsThatNoJobCanHave) {
  Launched unknown(RunScript({"--kind", "trainig"}, "true"));
  EXPECT_EQ(unknown.Wait(), 2);
  EXPECT_NE(unknown.error().find("training"), std::string::npos) << unknown.error();
  Launched lines(RunScript({"--name", "a\nb"}, "true"));
  EXPECT_EQ(lines.Wait(), 2);
  EXPECT_NE(lines.error().find("in one line"), std::string::npos) << lines.error();
}

}  // namespace
}  // namespace harmonaize
