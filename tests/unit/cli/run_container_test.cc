// `harmonaize run --inject` as a process, with a stand-in for docker's client: it shows how it was
// called, and its "containers" are ids that it writes to --cidfile and reads back with `kill`.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "src/ipc/control_socket.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

// The last word of the command line is what the client does while its container runs.
constexpr char kDockerClient[] = R"sh(#!/bin/sh
if [ "$1" = kill ]; then
  shift
  for id in "$@"; do echo "$id" >> "$KILLED"; done
  exit 0
fi
for word in "$@"; do
  [ "$before" != --cidfile ] || printf "%064x" "$((0xabc0 + RANK))" > "$word"
  before=$word
done
echo "LD_PRELOAD=$LD_PRELOAD of $RANK"
eval "$before"
)sh";

/// Returns the id of a rank's container.
std::string IdOf(int rank) {
  return fmt::format("{:064x}", 0xabc0 + rank);
}

class RunContainer : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    for (const char* name : {"bin", "lib", "harmonaize"}) fs::create_directory(Path(name));
    fs::copy_file(HARMONAIZE_PROGRAM, Path("bin/harmonaize"));
    std::ofstream(Path("lib/libharmonaize-preload.so"));
    std::ofstream(Path("bin/docker")) << kDockerClient;
    fs::permissions(Path("bin/docker"), fs::perms::owner_all);
    Result<FileDescriptor> listener = ListenAt(Socket(), 0600);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(*listener);
    door_ = std::thread([this] { HangUp(); });
    environment_ = TestEnvironment();
    environment_.Set("TMPDIR", folder_.path());
    environment_.Set("HOME", folder_.path());
    environment_.Set("PATH", Path("bin") + ":" + environment_.Get("PATH"));
    environment_.Set("HARMONAIZE_SOCKET", Socket());
    environment_.Set("KILLED", Path("killed"));
    for (const char* name : {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"}) {
      environment_.Unset(name);
    }
  }

  void TearDown() override {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (door_.joinable()) door_.join();
  }

  // A daemon that says nothing of itself: who asks is not kept waiting for an answer.
  void HangUp() {
    for (;;) {
      pollfd asked{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      ::poll(&asked, 1, -1);
      const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
    }
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Socket() const { return Path("harmonaize/harmonaized.sock"); }

  Launched Launch(std::vector<std::string> options, std::vector<std::string> command) {
    std::vector<std::string> words = {"run", "--inject"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return Launched(std::move(words), Path("bin/harmonaize"), &environment_);
  }

  std::vector<std::string> Killed() const {
    std::ostringstream text;
    text << std::ifstream(Path("killed")).rdbuf();
    return SortedLines(text.str());
  }

  TemporaryFolder folder_;
  FileDescriptor listener_;
  std::thread door_;
  Environment environment_;
};

TEST_F(RunContainer, ShowsItsCommandsAndRunsNothing) {
  Launched run = Launch({"-n", "2", "--dry-run"}, {"docker", "run", "image", "touch ran"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  const std::vector<std::string> lines = SortedLines(run.output());
  ASSERT_EQ(lines.size(), 2U) << run.output();
  EXPECT_TRUE(lines[0].starts_with("env HARMONAIZE_SOCKET=/run/harmonaize/harmonaized.sock "))
      << lines[0];
  for (const char* part :
       {" RANK=0 ", " WORLD_SIZE=2 ", " docker run --mount type=bind,src=",
        "/lib/libharmonaize-preload.so,dst=/opt/harmonaize/lib/libharmonaize-preload.so,readonly ",
        "/harmonaize,dst=/run/harmonaize,readonly ", " --env RANK ", " --network host "}) {
    EXPECT_NE(lines[0].find(part), std::string::npos) << part << " in " << lines[0];
  }
  EXPECT_TRUE(lines[0].ends_with(" image 'touch ran'")) << lines[0];
  EXPECT_EQ(lines[0].find("--cidfile"), std::string::npos) << lines[0];
  EXPECT_EQ(run.output().find("LD_PRELOAD="), run.output().find("LD_PRELOAD=/opt/harmonaize"));
  EXPECT_NE(run.error().find("--network"), std::string::npos) << run.error();
}

TEST_F(RunContainer, GivesTheClientVariablesAndNoLibrary) {
  Launched run = Launch({"-n", "2", "--no-prefix"}, {"docker", "run", "image", "true"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(SortedLines(run.output()),
            (std::vector<std::string>{"LD_PRELOAD= of 0", "LD_PRELOAD= of 1"}));
  EXPECT_EQ(Killed().size(), 0U);
}

TEST_F(RunContainer, KillsContainersWhoseClientsWereKilled) {
  Launched run = Launch({"-n", "2", "--timeout", "0.5", "--grace", "0.2"},
                        {"docker", "run", "image", "trap '' TERM; sleep 1000"});
  EXPECT_EQ(run.Wait(), 124) << run.error();
  EXPECT_EQ(Killed(), (std::vector<std::string>{IdOf(0), IdOf(1)}));
}

TEST_F(RunContainer, KillsContainersAfterALauncherThatWasKilled) {
  Launched run = Launch({}, {"docker", "run", "image", "echo up; sleep 1000"});
  ASSERT_TRUE(run.ReadUntil("up\n")) << run.error();
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  for (int i = 0; i < 500 && Killed().empty(); ++i) ::usleep(10'000);
  EXPECT_EQ(Killed(), (std::vector<std::string>{IdOf(0)}));
  const auto left = [this] {
    return std::any_of(fs::directory_iterator(folder_.path()), fs::directory_iterator(),
                       [](const fs::directory_entry& entry) {
                         return entry.path().filename().string().starts_with("harmonaize-run-");
                       });
  };
  for (int i = 0; i < 500 && left(); ++i) ::usleep(10'000);
  EXPECT_FALSE(left());
}

TEST_F(RunContainer, KillsNothingByAFileThatHoldsNoId) {
  Launched run = Launch({}, {"docker", "run", "image",
                             "for file in $TMPDIR/harmonaize-run-*/0; do echo --all > $file; done; "
                             "exit 3"});
  EXPECT_EQ(run.Wait(), 3) << run.error();
  EXPECT_EQ(Killed().size(), 0U);
}

TEST_F(RunContainer, RefusesWhatCannotBeInjected) {
  struct Refusal {
    std::vector<std::string> options;
    std::vector<std::string> command;
    std::string reason;
  };
  const Refusal refusals[] = {
      {{}, {"true"}, "'true' is no container runtime"},
      {{}, {"docker", "ps"}, "'docker ps' does not run a program"},
      {{}, {"docker", "run", "-d", "image"}, "start the container in the foreground"},
      {{"--daemon=none"}, {"docker", "run", "image"}, "with --daemon=none there is none"},
      {{"--daemon=private", "--dry-run"}, {"docker", "run", "image"}, "there is none"},
      {{"--daemon=private"}, {"docker", "exec", "a", "b"}, "a private daemon's socket"},
      {{"--elastic", "1:2", "--name", "x"}, {"docker", "exec", "a", "b"}, "tickets of newcomers"},
      {{}, {"docker", "-H", "tcp://far", "run", "image"}, "the engine at tcp://far"},
  };
  for (const Refusal& refusal : refusals) {
    Launched run = Launch(refusal.options, refusal.command);
    EXPECT_EQ(run.Wait(), 2) << refusal.reason;
    EXPECT_NE(run.error().find(refusal.reason), std::string::npos) << run.error();
    EXPECT_EQ(run.output(), "");
  }
  Launched alone({"run", "--dry-run", "--", "true"});
  EXPECT_EQ(alone.Wait(), 2);
  environment_.Set("HARMONAIZE_SOCKET", "/nonexistent/d.sock");
  Launched none = Launch({"--dry-run"}, {"docker", "run", "-d", "image"});
  EXPECT_EQ(none.Wait(), 125);
  EXPECT_NE(none.error().find("commands for a daemon that runs"), std::string::npos)
      << none.error();
  Launched enters = Launch({}, {"docker", "exec", "a", "b"});
  EXPECT_EQ(enters.Wait(), 125);
  EXPECT_NE(enters.error().find("cannot be given a private daemon's"), std::string::npos)
      << enters.error();
}

}  // namespace
}  // namespace harmonaize
