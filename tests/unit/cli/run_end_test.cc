#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <sstream>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The numbers that follow "pid " in a text.
std::vector<pid_t> Processes(const std::string& text) {
  std::vector<pid_t> processes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    pid_t process = 0;
    if (word == "pid" && words >> process) processes.push_back(process);
  }
  return processes;
}

TEST(RunEnd, ReturnsZeroWhenAllRanksDo) {
  EXPECT_EQ(Launched(RunScript({"-n", "3"}, ":")).Wait(), 0);
}

TEST(RunEnd, ReturnsTheFailingRanksStatus) {
  Launched run(
      RunScript({"-n", "3", "--error-wait", "0"}, "test $RANK = 1 && exit 3; exec sleep 1000"));
  EXPECT_EQ(run.Wait(), 3);
  EXPECT_NE(run.error().find("rank 1 (pid "), std::string::npos);
  EXPECT_NE(run.error().find("exited with status 3; ending the other ranks"), std::string::npos);
}

TEST(RunEnd, AKilledRankEndsTheOthers) {
  Launched run(RunScript({"-n", "4", "--error-wait", "0"}, "echo pid $$; exec sleep 1000"));
  for (const char* rank : {"[0] pid", "[1] pid", "[2] pid", "[3] pid"}) {
    ASSERT_TRUE(run.ReadUntil(rank));
  }
  const std::vector<pid_t> ranks = Processes(run.output());
  ASSERT_EQ(ranks.size(), 4U);
  ::kill(ranks[2], SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_NE(run.error().find("(pid " + std::to_string(ranks[2]) + ") was killed by SIGKILL"),
            std::string::npos)
      << run.error();
  for (const pid_t rank : ranks) EXPECT_TRUE(WaitUntilGone(rank));
}

TEST(RunEnd, AnElasticJobGoesOnWithoutRanksThatFail) {
  Launched run(RunScript({"-n", "4", "--elastic", "2"},
                         "test $RANK = 1 && exit 3; test $RANK = 2 && kill -9 $$; sleep 0.5; "
                         "echo done"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_NE(run.error().find("exited with status 3; the job goes on without it"), std::string::npos)
      << run.error();
  EXPECT_NE(run.error().find("was killed by SIGKILL (Killed); the job goes on without it"),
            std::string::npos)
      << run.error();
  EXPECT_NE(run.output().find("[0] done"), std::string::npos);
  EXPECT_NE(run.output().find("[3] done"), std::string::npos);
}

TEST(RunEnd, AnElasticJobEndsWithTheFailureThatLeavesTooFewRanks) {
  Launched run(RunScript({"-n", "3", "--elastic", "2", "--error-wait", "0"},
                         "test $RANK = 0 && exit 3; test $RANK = 1 && sleep 0.5 && exit 4; "
                         "exec sleep 1000"));
  EXPECT_EQ(run.Wait(), 4);
  EXPECT_NE(run.error().find("exited with status 4; ending the other ranks"), std::string::npos)
      << run.error();
}

TEST(RunEnd, AnElasticJobBeginsWithAsManyRanksAsItNeeds) {
  Launched run(RunScript({"-n", "2", "--elastic", "3"}, ":"));
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_NE(run.error().find("--elastic 3"), std::string::npos) << run.error();
}

TEST(RunEnd, TheOthersMaySayWhatTheySaw) {
  // What a program does whose library reports the lost rank.
  Launched run(RunScript({"-n", "2", "--error-wait", "5"},
                         "if test $RANK = 0; then kill -9 $$; fi; sleep 0.3; echo rank 0 is lost; "
                         "exit 6"));
  EXPECT_EQ(run.Wait(), 137);
  EXPECT_EQ(run.output(), "[1] rank 0 is lost\n");
}

TEST(RunEnd, RanksThatIgnoreSigtermAreKilled) {
  const Clock::time_point start = Clock::now();
  Launched run(RunScript({"-n", "2", "--error-wait", "0.2", "--grace", "0.3"},
                         "trap '' TERM; test $RANK = 1 && exit 9; while :; do sleep 1; done"));
  EXPECT_EQ(run.Wait(), 9);
  EXPECT_NE(run.error().find("rank 0 did not end within 0.3 s: killing"), std::string::npos);
  EXPECT_GE(SecondsSince(start), 0.5);
}

TEST(RunEnd, GrandchildrenEndWithTheirRank) {
  Launched run(RunScript({"-n", "2", "--grace", "0.3"},
                         "sleep 1000 & echo pid $!; (trap '' TERM; echo pid $(exec sh -c 'echo "
                         "$PPID'); while :; do sleep 1; done) & sleep 0.2"));
  EXPECT_EQ(run.Wait(), 0);
  const std::vector<pid_t> left = Processes(run.output());
  EXPECT_EQ(left.size(), 4U) << run.output();
  for (const pid_t process : left) EXPECT_TRUE(WaitUntilGone(process));
}

TEST(RunEnd, RanksEndWithALauncherThatWasKilled) {
  Launched run(RunScript({}, "sleep 1000 & echo pid $!; echo pid $$; echo go; wait"));
  ASSERT_TRUE(run.ReadUntil("go"));
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  const std::vector<pid_t> left = Processes(run.output());
  EXPECT_EQ(left.size(), 2U);
  for (const pid_t process : left) EXPECT_TRUE(WaitUntilGone(process));
}

TEST(RunEnd, PassesSigtermOnAndBelievesTheRanks) {
  Launched run(RunScript({"-n", "2"},
                         "trap 'echo saved; exit 0' TERM; echo ready $RANK; while :; do sleep "
                         "0.02; done"));
  ASSERT_TRUE(run.ReadUntil("ready 0"));
  ASSERT_TRUE(run.ReadUntil("ready 1"));
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find("[0] saved\n"), std::string::npos);
  EXPECT_NE(run.output().find("[1] saved\n"), std::string::npos);
}

TEST(RunEnd, AnInterruptedJobSaysSoInItsStatus) {
  Launched run(RunScript({"-n", "2"}, "echo ready $RANK; exec sleep 1000"));
  ASSERT_TRUE(run.ReadUntil("ready 0"));
  ASSERT_TRUE(run.ReadUntil("ready 1"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_NE(run.error().find("SIGINT: passed on to all ranks"), std::string::npos);
}

TEST(RunEnd, ASecondSignalKills) {
  Launched run(RunScript({"--grace", "100"},
                         "trap 'echo no' INT; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(run.ReadUntil("ready"));
  run.Signal(SIGINT);
  ASSERT_TRUE(run.ReadUntil("no\n"));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
}

TEST(RunEnd, UserSignalsArePassedOnAndChangeNothing) {
  Launched run(RunScript({},
                         "trap 'echo checkpoint; exit 0' USR1; echo ready; while :; do sleep "
                         "0.02; done"));
  ASSERT_TRUE(run.ReadUntil("ready"));
  run.Signal(SIGUSR1);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_NE(run.output().find("checkpoint"), std::string::npos);
  EXPECT_EQ(run.error().find("harmonaize:"), std::string::npos) << run.error();
}

TEST(RunEnd, IgnoresWhatItWasStartedToIgnore) {
  // As nohup and a shell's "&" start it. The launcher must not take the signal up again.
  ASSERT_NE(::signal(SIGHUP, SIG_IGN), SIG_ERR);
  Launched run(RunScript({"-n", "2"}, "echo ready $RANK; sleep 0.5; echo done"));
  ::signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(run.ReadUntil("ready 0"));
  ASSERT_TRUE(run.ReadUntil("ready 1"));
  run.Signal(SIGHUP);
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(run.error().find("SIGHUP"), std::string::npos) << run.error();
  EXPECT_NE(run.output().find("[1] done\n"), std::string::npos);
}

TEST(RunEnd, TheShortestTimeoutIsNotNone) {
  EXPECT_EQ(Launched(RunScript({"--timeout", "0.0001"}, "exec sleep 1000")).Wait(), 124);
}

TEST(RunEnd, EndsAJobThatTakesTooLong) {
  Launched run(RunScript({"-n", "2", "--timeout", "0.3"}, "exec sleep 1000"));
  EXPECT_EQ(run.Wait(), 124);
  EXPECT_NE(run.error().find("did not end within 0.3 s"), std::string::npos);
}

TEST(RunEnd, SaysThatAProgramCannotBeStarted) {
  Launched missing({"run", "--daemon=none", "--no-preload", "-n", "2", "no-such-program"});
  EXPECT_EQ(missing.Wait(), 127);
  EXPECT_NE(missing.error().find("cannot start 'no-such-program'"), std::string::npos);
  EXPECT_EQ(Launched({"run", "--daemon=none", "--no-preload", "/etc/passwd"}).Wait(), 126);
}

}  // namespace
}  // namespace harmonaize
