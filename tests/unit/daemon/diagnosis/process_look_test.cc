#include "daemon/diagnosis/process_look.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace harmonaize::daemon {
namespace {

std::string StatLine(const std::string& name, char state, uint64_t faults, uint64_t user,
                     uint64_t system) {
  return "4711 (" + name + ") " + state + " 1 4711 4711 0 -1 4194560 900 0 " +
         std::to_string(faults) + " 0 " + std::to_string(user) + " " + std::to_string(system) +
         " 0 0 20 0 3 0 123456 1000000 500\n";
}

TEST(ProcessLook, ReadsStateFaultsAndTime) {
  const auto sight = ParseStat(StatLine("python3", 'S', 7, 30, 12));
  ASSERT_TRUE(sight.has_value());
  EXPECT_EQ(sight->state, 'S');
  EXPECT_EQ(sight->major_faults, 7u);
  EXPECT_EQ(sight->ticks, 42u);
}

// A process chooses its name.
TEST(ProcessLook, IsNotFooledByAName) {
  for (const char* name : {"a) R 1 2 3 4 5 6 7 8 9 10 11", "x\ny) T 1", ")", "", " ) ) R"}) {
    const auto sight = ParseStat(StatLine(name, 'T', 1, 2, 3));
    ASSERT_TRUE(sight.has_value()) << name;
    EXPECT_EQ(sight->state, 'T') << name;
    EXPECT_EQ(sight->ticks, 5u) << name;
  }
}

TEST(ProcessLook, RefusesWhatIsNoSuchLine) {
  for (const char* text :
       {"", "4711", "4711 (a)", "4711 (a) ", "4711 (a) S 1 2 3",
        "4711 (a) S 1 2 3 4 5 6 7 8 x 10 11 12 13", "4711 (a) SS 1 2 3 4 5 6 7 8 9 10 11 12 13"}) {
    EXPECT_FALSE(ParseStat(text).has_value()) << text;
  }
}

TEST(ProcessLook, FindsSwappedMemory) {
  EXPECT_TRUE(ParseSwapped("Name:\tx\nVmSwap:\t     12 kB\nThreads:\t3\n"));
  EXPECT_FALSE(ParseSwapped("Name:\tx\nVmSwap:\t      0 kB\n"));
  EXPECT_FALSE(ParseSwapped("Name:\tVmSwap: 5\n"));
}

TEST(ProcessLook, LooksAtNoGroupOutsideOfItsView) {
  EXPECT_EQ(ParseControlGroup("0::/system.slice/job.scope\n"), "/system.slice/job.scope");
  EXPECT_EQ(ParseControlGroup("5:memory:/old\n0::/new\n"), "/new");
  EXPECT_EQ(ParseControlGroup("0::/../../etc\n"), "");
  EXPECT_EQ(ParseControlGroup("0::relative\n"), "");
  EXPECT_EQ(ParseControlGroup("5:memory:/old\n"), "");
  EXPECT_EQ(ParseControlGroup("0::/" + std::string(5000, 'a')), "");
}

TEST(ProcessLook, CountsKillsForLackOfMemory) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\noom_group_kill 0\n"), 3u);
  EXPECT_FALSE(ParseOomKills("low 0\n").has_value());
}

ProcessSight Sight(char state, uint64_t ticks = 0, uint64_t faults = 0) {
  return {.state = state, .major_faults = faults, .ticks = ticks, .oom_kills = std::nullopt};
}

TEST(ProcessLook, TellsWhatAProcessDoes) {
  const auto does = [](const ProcessSight& first, const ProcessSight& second) {
    return WhatItDoes(first, second, 10, std::nullopt);
  };
  EXPECT_EQ(does(Sight('S'), Sight('S')), Doing::kSleeping);
  EXPECT_EQ(does(Sight('S', 5), Sight('S', 6)), Doing::kSleeping) << "it wakes now and then";
  EXPECT_EQ(does(Sight('S', 5), Sight('S', 12)), Doing::kRunning) << "its other threads run";
  EXPECT_EQ(does(Sight('R'), Sight('R')), Doing::kRunning) << "it waits for a processor";
  EXPECT_EQ(does(Sight('R'), Sight('S')), Doing::kSleeping);
  EXPECT_EQ(does(Sight('T'), Sight('T')), Doing::kStopped);
  EXPECT_EQ(does(Sight('T', 3), Sight('T', 9)), Doing::kStopped);
  EXPECT_EQ(does(Sight('t'), Sight('t')), Doing::kTraced);
  EXPECT_EQ(does(Sight('T'), Sight('R', 5)), Doing::kRunning) << "it goes on again";
  EXPECT_EQ(does(Sight('D'), Sight('D')), Doing::kOnDisk);
  EXPECT_EQ(does(Sight('S'), Sight('Z')), Doing::kEnded);
}

TEST(ProcessLook, TellsSwappingFromReading) {
  ProcessSight first = Sight('D');
  ProcessSight second = Sight('D', 0, 5);
  EXPECT_EQ(WhatItDoes(first, second, 10, std::nullopt), Doing::kOnDisk);
  second.swapped = true;
  EXPECT_EQ(WhatItDoes(first, second, 10, std::nullopt), Doing::kSwapping);
  second.state = 'S';
  second.major_faults = 100;
  first.state = 'S';
  EXPECT_EQ(WhatItDoes(first, second, 10, std::nullopt), Doing::kSwapping);
}

TEST(ProcessLook, TellsOfAKillSinceItFirstLooked) {
  ProcessSight first = Sight('S');
  ProcessSight second = Sight('S');
  second.oom_kills = 4;
  EXPECT_EQ(WhatItDoes(first, second, 10, 4), Doing::kSleeping);
  EXPECT_EQ(WhatItDoes(first, second, 10, 3), Doing::kOutOfMemory);
  EXPECT_EQ(WhatItDoes(first, second, 10, std::nullopt), Doing::kSleeping);
  second.ticks = 10;
  EXPECT_EQ(WhatItDoes(first, second, 10, 3), Doing::kRunning) << "it was not the one";
}

TEST(ProcessLook, LooksAtAProcess) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const auto sight = LookAtProcess(child);
  ASSERT_TRUE(sight.has_value());
  EXPECT_EQ(sight->state, 'T');
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(LookAtProcess(child).has_value());
}

}  // namespace
}  // namespace harmonaize::daemon
