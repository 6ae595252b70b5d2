// What a real bash completes, with real daemons.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

using Words = std::vector<std::string>;

/// Where nobody listens.
const std::string kNobody = "/nonexistent/harmonaized.sock";

/// Returns what bash would put in the place of the last of these pieces, into which it has split a
/// command line that begins with "harmonaize".
Words CompletedByBash(const Words& pieces, const std::string& socket = kNobody) {
  const std::string script = R"(
    source <("$1" completion bash) || exit 3
    program=$1; shift
    complete -p harmonaize >/dev/null || exit 4
    COMP_WORDS=(harmonaize "$@"); COMP_CWORD=$#
    _harmonaize "$program" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
    for reply in "${COMPREPLY[@]}"; do printf '%s\n' "$reply"; done)";
  const Ended ended = RunBash(script, pieces, socket);
  EXPECT_EQ(ended.status, 0) << ended.error;
  EXPECT_EQ(ended.error, "");
  Words replies;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) replies.push_back(line);
  return replies;
}

TEST(BashCompletion, KnowsCommandsOptionsAndChoices) {
  EXPECT_EQ(CompletedByBash({"ev"}), (Words{"events"}));
  EXPECT_EQ(CompletedByBash({"token", ""}), (Words{"create", "list", "revoke"}));
  EXPECT_EQ(CompletedByBash({"ticket", ""}), (Words{"make", "list", "burn"}));
  EXPECT_EQ(CompletedByBash({"events", "--fo"}), (Words{"--follow"}));
  EXPECT_EQ(CompletedByBash({"events", "--severity", ""}),
            (Words{"INFO", "WARN", "ERROR", "FATAL"}));
  EXPECT_EQ(CompletedByBash({"run", "--kind", "t"}), (Words{"training"}));
  EXPECT_EQ(CompletedByBash({"run", "--daemon", "="}), (Words{"auto", "private", "none"}));
  EXPECT_EQ(CompletedByBash({"run", "--daemon", "=", "pr"}), (Words{"private"}));
  EXPECT_EQ(CompletedByBash({"events", "--types", "rank.late,link.r"}),
            (Words{"rank.late,link.restored"}));
  EXPECT_EQ(CompletedByBash({"explain", "--collective", "AllG"}), (Words{"AllGather"}));
  EXPECT_EQ(CompletedByBash({"completion", ""}), (Words{"bash", "zsh"}));
}

TEST(BashCompletion, LeavesProgramsAndFilesToBash) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  std::filesystem::create_directory(folder->path() + "/a folder");
  EXPECT_EQ(CompletedByBash({"plan", "--fabric", folder->path() + "/a"}),
            (Words{folder->path() + "/a folder"}));
  EXPECT_EQ(CompletedByBash({"run", "--requirements", folder->path() + "/a"}),
            (Words{folder->path() + "/a folder"}));
  EXPECT_EQ(CompletedByBash({"requirements", folder->path() + "/a"}),
            (Words{folder->path() + "/a folder"}));
  EXPECT_EQ(CompletedByBash({"run", "-n", "2", "--", "cat", folder->path() + "/a"}),
            (Words{folder->path() + "/a folder"}));
  const Words programs = CompletedByBash({"run", "-n", "2", "bas"});
  EXPECT_NE(std::find(programs.begin(), programs.end(), "bash"), programs.end());
}

TEST(BashCompletion, KnowsTheDaemonsJobs) {
  const DaemonProcess daemon;
  ASSERT_TRUE(MakeEvents("llama", 1));
  EXPECT_EQ(CompletedByBash({"jobs", "ll"}, daemon.socket_path()), (Words{"llama"}));
  EXPECT_EQ(CompletedByBash({"agents", "ll"}, daemon.socket_path()), (Words{"llama"}));
  EXPECT_EQ(CompletedByBash({"events", "--job", "ll"}, daemon.socket_path()), (Words{"llama"}));
  // The socket that the command line names counts.
  EXPECT_EQ(CompletedByBash({"jobs", "--socket", daemon.socket_path(), "ll"}), (Words{"llama"}));
  EXPECT_EQ(CompletedByBash({"jobs", "ll"}), Words{});
}

TEST(BashCompletion, KnowsWhatIsAnnounced) {
  const DaemonProcess daemon;
  ASSERT_EQ(RunCommand({"maintenance", "announce", "--new-id", "disks", "--in", "1h"},
                       daemon.socket_path())
                .status,
            0);
  for (const char* const word : {"start", "complete", "cancel"}) {
    EXPECT_EQ(CompletedByBash({"maintenance", word, "di"}, daemon.socket_path()), (Words{"disks"}));
  }
  EXPECT_EQ(CompletedByBash({"maintenance", "announce", "--id", ""}, daemon.socket_path()),
            (Words{"disks"}));
  EXPECT_EQ(CompletedByBash({"events", "--acknowledge", ""}, daemon.socket_path()), Words{})
      << "no job was told";
}

TEST(BashCompletion, KnowsTheOffersThatHaveNotEnded) {
  const DaemonProcess daemon;
  const std::string socket = daemon.socket_path();
  EXPECT_EQ(CompletedByBash({"offer", "make", "llama", "s"}), (Words{"slow_down"}));
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ASSERT_NCCL(ncclCommInitRank(&communicator, 1, id, 0));
  const Ended jobs = RunCommand({"jobs", "--json"}, socket);
  const std::string job = ReadJson(jobs.output).at("jobs").at(0).at("id");
  const Ended made =
      RunCommand({"offer", "make", job, "grow", "--within", "10min", "--json"}, socket);
  ASSERT_EQ(made.status, 0) << made.error;
  const std::string offer = ReadJson(made.output).at("id");
  for (const char* const verb : {"accept", "take"}) {
    EXPECT_EQ(CompletedByBash({"offer", verb, "of"}, socket), (Words{offer}));
  }
  EXPECT_EQ(RunCommand({"offer", "withdraw", offer}, socket).status, 0);
  EXPECT_EQ(CompletedByBash({"offer", "accept", "of"}, socket), Words{});
  EXPECT_NCCL(ncclCommDestroy(communicator));
}

TEST(BashCompletion, NeverPutsATenantsNameIntoTheCommandLineThatTheShellWouldExpand) {
  const DaemonProcess daemon;
  const Words hostile = {"$(touch pwned)", "`touch pwned`", "--socket=/tmp/evil", "a b; touch x",
                         "'quoted'"};
  for (const std::string& name : hostile) ASSERT_TRUE(MakeEvents(name, 1));
  const Words replies = CompletedByBash({"jobs", ""}, daemon.socket_path());
  EXPECT_EQ(replies.size(), hostile.size());
  for (const std::string& reply : replies) {
    EXPECT_EQ(reply.find_first_not_of("0123456789abcdef"), std::string::npos) << reply;
    EXPECT_EQ(reply.size(), 8u) << reply;
  }
}

TEST(BashCompletion, DoesNotWaitForASilentDaemon) {
  const DaemonProcess daemon;
  ASSERT_TRUE(MakeEvents("llama", 1));
  kill(daemon.pid(), SIGSTOP);
  // It ends itself before it has an answer, and prints nothing.
  const Ended ended = RunCommand(
      {"complete", "--shell", "bash", "2", "--", "harmonaize", "jobs", ""}, daemon.socket_path());
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "");
}

TEST(BashCompletion, StandsPlacesWhereNoWordIs) {
  for (const char* cursor : {"0", "9", "-1", "x"}) {
    EXPECT_EQ(RunCommand({"complete", cursor, "--", "harmonaize", "jobs"}, kNobody).status, 2)
        << cursor;
  }
}

/// zsh has its completion in an editor, so the function is called with one of its parts replaced.
TEST(ZshCompletion, HandsTheWordsToTheEditor) {
  if (RunBash("command -v zsh", {}, kNobody).status != 0) GTEST_SKIP() << "zsh is not installed";
  const std::string script = R"zsh(
    zsh -f -c '
      compdef() { : }
      compadd() { print -l -- $values "--" $shown }
      source <("$1" completion zsh) || exit 3
      words=("$1" completion ""); CURRENT=3
      _harmonaize
    ' zsh "$1")zsh";
  const Ended ended = RunBash(script, {}, kNobody);
  EXPECT_EQ(ended.status, 0) << ended.error;
  EXPECT_EQ(ended.output, "bash\nzsh\n--\nbash\nzsh\n");
}

}  // namespace
}  // namespace harmonaize::testing
