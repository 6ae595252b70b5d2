#include "daemon/diagnosis/hang_judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/gap_estimate.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSecond = 1000 * kMs;
constexpr uint64_t kLateAfter = 5 * kSecond;
constexpr uint64_t kStep = 250 * kMs;

/// Processes and operations under simulated time. Process n is rank n - 1 of every communicator.
class HangJudgeTest : public ::testing::Test {
 protected:
  /// What a process does at a time; sleeping where nothing is said.
  std::map<uint64_t, std::function<Doing(uint64_t now)>> does;
  /// Sets the operations that wait at a time.
  std::function<void(uint64_t now)> waiting = [](uint64_t) {};

  WaitFact& Wait(uint64_t communicator, uint64_t sequence, uint64_t since,
                 const std::vector<int>& in_it, const std::vector<int>& awaited,
                 Awaited what = Awaited::kCall) {
    WaitFact& wait = waits_.emplace_back();
    wait.communicator = communicator;
    wait.label = std::string(1, static_cast<char>('A' + communicator));
    wait.key = {.sequence = sequence};
    wait.operation = "AllReduce #" + std::to_string(sequence);
    wait.since_ns = since;
    wait.still_since_ns = since;
    wait.late_after_ns = kLateAfter;
    for (const int rank : in_it) wait.waiting.push_back(ProcessOf(rank));
    for (const int rank : awaited) {
      const uint64_t process = ProcessOf(rank);
      AwaitedFact fact{.rank = rank, .awaited = what, .process = process};
      const auto number = static_cast<uint32_t>(process);
      if (processes_.Want(number, 0, now_)) looked_at_.push_back(number);
      fact.does = processes_.Of(static_cast<uint32_t>(process), now_);
      wait.awaited.push_back(fact);
    }
    return wait;
  }
  static uint64_t ProcessOf(int rank) { return static_cast<uint64_t>(rank) + 1; }

  /// Lets time pass, and keeps what is told.
  void RunUntil(uint64_t end) {
    for (; now_ <= end; now_ += kStep) {
      waits_.clear();
      waiting(now_);
      for (const HangJudge::Told& told : judge_.Update(waits_, now_)) Keep(told);
      for (const uint32_t process : std::exchange(looked_at_, {})) {
        const auto found = does.find(process);
        processes_.Note(process, found == does.end() ? Doing::kSleeping : found->second(now_),
                        now_);
      }
    }
  }
  void Keep(const HangJudge::Told& told) {
    const Verdict& verdict = told.verdict;
    const char* what = told.what == HangJudge::What::kRaised    ? "raised"
                       : told.what == HangJudge::What::kChanged ? "changed"
                                                                : "cleared";
    heard.push_back(std::string(what) + " " + verdict.label + " " +
                    std::string(NameOf(verdict.hang)) + " " + std::string(NameOf(verdict.doing)));
    if (verdict.fault() && told.what != HangJudge::What::kCleared) {
      if (first_fault == 0) first_fault = now_;
      ++faults;
    }
  }
  const Verdict* Of(uint64_t communicator) const { return judge_.Of(communicator); }

  std::vector<std::string> heard;
  int faults = 0;
  uint64_t first_fault = 0;
  uint64_t now_ = kSecond;
  std::vector<WaitFact> waits_;
  std::vector<uint32_t> looked_at_;
  HangJudge judge_{HangJudge::TimesFor(kLateAfter)};
  ProcessTable processes_{HangJudge::TimesFor(kLateAfter).settle_ns};
};

using Strings = std::vector<std::string>;

/// A process that does this from a time on.
std::function<Doing(uint64_t)> From(uint64_t at, Doing doing, Doing before = Doing::kSleeping) {
  return [=](uint64_t now) { return now < at ? before : doing; };
}

// ---------------------------------------------------------------------------------------------
// Healthy jobs, for ten minutes

TEST_F(HangJudgeTest, SaysNothingOfRanksThatAreALittleApart) {
  waiting = [this](uint64_t now) {
    // Every second a step, and its last rank comes up to 900 ms after the first.
    const uint64_t step = now / kSecond;
    const uint64_t since = step * kSecond;
    if (now < since + (step % 10) * 90 * kMs) Wait(1, step, since, {0, 1}, {2});
  };
  RunUntil(600 * kSecond);
  EXPECT_EQ(heard, Strings());
}

TEST_F(HangJudgeTest, CallsNoFaultWhatComputes) {
  does[3] = [](uint64_t) { return Doing::kRunning; };
  waiting = [this](uint64_t now) {
    const uint64_t step = now / (12 * kSecond);
    const uint64_t since = step * 12 * kSecond;
    if (now < since + 10 * kSecond) Wait(1, step, since, {0, 1}, {2});
  };
  RunUntil(600 * kSecond);
  EXPECT_EQ(faults, 0);
  EXPECT_NE(std::find(heard.begin(), heard.end(), "raised B computing running"), heard.end());
  EXPECT_NE(std::find(heard.begin(), heard.end(), "cleared B called_late running"), heard.end());
}

// A rank that reads and computes in turns sleeps at most of the looks.
TEST_F(HangJudgeTest, CallsNoFaultWhatComputesNowAndThen) {
  does[3] = [](uint64_t now) {
    return now % (1500 * kMs) < 500 * kMs ? Doing::kRunning : Doing::kSleeping;
  };
  waiting = [this](uint64_t now) {
    const uint64_t step = now / (20 * kSecond);
    const uint64_t since = step * 20 * kSecond;
    if (now < since + 18 * kSecond) Wait(1, step, since, {0, 1}, {2});
  };
  RunUntil(600 * kSecond);
  EXPECT_EQ(faults, 0);
}

// Hundreds of operations are posted ahead, and the stream of one rank comes to each in time.
TEST_F(HangJudgeTest, CallsNoFaultWhatIsQueued) {
  waiting = [this](uint64_t now) {
    Wait(1, 7, kSecond, {0, 1}, {2}, Awaited::kStream);
    const uint64_t step = now / (4 * kSecond);
    Wait(2, step, step * 4 * kSecond, {2}, {3});
  };
  does[4] = [](uint64_t) { return Doing::kRunning; };
  RunUntil(600 * kSecond);
  EXPECT_EQ(faults, 0);
}

// A job that writes a checkpoint every minute is known after the first one.
TEST_F(HangJudgeTest, LearnsGaps) {
  GapEstimate gap;
  uint64_t step = 0;
  uint64_t arrived = kSecond;
  uint64_t comes = 2 * kSecond;
  waiting = [&](uint64_t now) {
    while (now >= comes) {
      gap.Note(arrived);
      arrived = comes;
      comes += ++step % 60 == 0 ? 20 * kSecond : kSecond;
    }
    Wait(1, step, arrived, {0}, {1}).late_after_ns = std::max(kLateAfter, 3 * gap.gap_ns());
  };
  RunUntil(90 * kSecond);
  EXPECT_EQ(faults, 1) << "the first one cannot be told from a hang";
  faults = 0;
  RunUntil(600 * kSecond);
  EXPECT_EQ(faults, 0);
}

TEST_F(HangJudgeTest, CallsNoFaultALargeOperationThatGetsOn) {
  waiting = [this](uint64_t now) {
    WaitFact& wait = Wait(1, 1, kSecond, {0, 1}, {});
    wait.all_posted = true;
    wait.still_since_ns = now - 100 * kMs;
  };
  RunUntil(600 * kSecond);
  EXPECT_EQ(heard, Strings());
}

TEST_F(HangJudgeTest, CallsNoFaultAnOperationThatUsuallyTakesAsLong) {
  waiting = [this](uint64_t now) {
    const uint64_t since = now / (30 * kSecond) * 30 * kSecond;
    WaitFact& wait = Wait(1, since, since, {0, 1}, {});
    wait.all_posted = true;
    wait.usual_ns = 5 * kSecond;
  };
  RunUntil(600 * kSecond);
  EXPECT_EQ(heard, Strings());
}

// ---------------------------------------------------------------------------------------------
// Faults

TEST_F(HangJudgeTest, NamesAStoppedRankWithinFiveSeconds) {
  does[3] = From(0, Doing::kStopped);
  waiting = [this](uint64_t now) {
    if (now >= 10 * kSecond) Wait(1, 4, 10 * kSecond, {0, 1}, {2});
  };
  RunUntil(30 * kSecond);
  EXPECT_LE(first_fault, 15 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_called stopped"}));
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->roots,
            std::vector<HangRoot>({{2, "B", HangClass::kNotCalled, Doing::kStopped}}));
  EXPECT_NE(Of(1)->text.find("for rank 2, which is stopped"), std::string::npos) << Of(1)->text;
}

TEST_F(HangJudgeTest, NamesASleepingRankWhenItIsLate) {
  waiting = [this](uint64_t now) {
    if (now >= 10 * kSecond) Wait(1, 4, 10 * kSecond, {0, 1}, {2});
  };
  RunUntil(30 * kSecond);
  EXPECT_GE(first_fault, 10 * kSecond + kLateAfter);
  EXPECT_LE(first_fault, 10 * kSecond + kLateAfter + kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_called sleeping"}));
}

TEST_F(HangJudgeTest, TellsWhatHangsFor) {
  for (const Doing doing :
       {Doing::kSwapping, Doing::kOnDisk, Doing::kOutOfMemory, Doing::kTraced}) {
    does[3] = From(0, doing);
    const uint64_t since = now_;
    waiting = [this, since](uint64_t) { Wait(1, since, since, {0, 1}, {2}); };
    RunUntil(since + 10 * kSecond);
    ASSERT_NE(Of(1), nullptr);
    EXPECT_EQ(Of(1)->hang, HangClass::kNotCalled);
    EXPECT_EQ(Of(1)->doing, doing);
  }
}

TEST_F(HangJudgeTest, TellsThatARankIsLateWhenItComes) {
  waiting = [this](uint64_t now) {
    if (now < 9 * kSecond) Wait(1, 4, kSecond, {0, 1}, {2});
  };
  RunUntil(12 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_called sleeping", "cleared B called_late sleeping"}));
  EXPECT_EQ(Of(1), nullptr);
}

TEST_F(HangJudgeTest, NamesARankWhoseDataIsMissing) {
  waiting = [this](uint64_t) { Wait(1, 4, kSecond, {0, 1}, {2}, Awaited::kData); };
  RunUntil(20 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_filled sleeping"}));
  EXPECT_NE(Of(1)->text.find("for the data of rank 2"), std::string::npos) << Of(1)->text;
}

TEST_F(HangJudgeTest, NamesAStoppedRankWhoseDataIsMissingSooner) {
  does[3] = From(0, Doing::kStopped);
  waiting = [this](uint64_t) { Wait(1, 4, kSecond, {0, 1}, {2}, Awaited::kData); };
  RunUntil(5 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_filled stopped"}));
}

TEST_F(HangJudgeTest, TellsASlowTransferAndItsStage) {
  waiting = [this](uint64_t) {
    WaitFact& wait = Wait(1, 4, kSecond, {0, 1}, {});
    wait.all_posted = true;
    wait.usual_ns = 100 * kMs;
    wait.senders = {4, 5};
  };
  RunUntil(20 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B slow_transfer unknown"}));
  EXPECT_NE(Of(1)->text.find("it waits for data of ranks 4, 5"), std::string::npos) << Of(1)->text;
}

TEST_F(HangJudgeTest, NamesTheRanksOfADaemonThatDoesNotAnswer) {
  waiting = [this](uint64_t) {
    for (AwaitedFact& rank : Wait(1, 4, kSecond, {0, 1}, {2, 3}).awaited) rank.unreachable = true;
  };
  RunUntil(4 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B daemon_unreachable sleeping"}));
  EXPECT_EQ(Of(1)->roots.size(), 2u);
}

// ---------------------------------------------------------------------------------------------
// Causes

// Rank 3 waits in communicator C for rank 5, which is stopped.
TEST_F(HangJudgeTest, FollowsCausesToTheirRoot) {
  does[6] = From(0, Doing::kStopped);
  waiting = [this](uint64_t) {
    Wait(1, 4, 2 * kSecond, {0, 1}, {3});
    Wait(2, 9, kSecond, {3}, {5});
  };
  RunUntil(20 * kSecond);
  const std::vector<HangRoot> root{{5, "C", HangClass::kNotCalled, Doing::kStopped}};
  ASSERT_NE(Of(1), nullptr);
  ASSERT_NE(Of(2), nullptr);
  EXPECT_EQ(Of(1)->roots, root);
  EXPECT_EQ(Of(2)->roots, root);
  EXPECT_EQ(Of(1)->waits_for, std::vector<int>({3}));
  EXPECT_NE(Of(1)->text.find("which is waiting in communicator 'C' for rank 5, which is stopped"),
            std::string::npos)
      << Of(1)->text;
}

// Rank 2 waits in another operation of the communicator for the data of rank 1, which is stopped.
TEST_F(HangJudgeTest, SaysWhichRankOfTheSameCommunicatorWaitsForWhich) {
  does[2] = From(0, Doing::kStopped);
  waiting = [this](uint64_t) {
    Wait(1, 4, kSecond, {0}, {1, 2});
    Wait(1, 5, kSecond, {2}, {1}, Awaited::kData);
  };
  RunUntil(20 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->roots,
            std::vector<HangRoot>({{1, "B", HangClass::kNotFilled, Doing::kStopped}}));
  const std::string& text = Of(1)->text;
  const bool of_4 = Of(1)->key.sequence == 4;
  EXPECT_NE(text.find(of_4 ? "s for rank 2, which is waiting for rank 1, which is stopped: "
                           : "s for the data of rank 1, which is stopped: "),
            std::string::npos)
      << text;

  // Where all that are waited for are roots, nobody waits for another.
  EXPECT_EQ(ReasonOf({.label = "B",
                      .hang = HangClass::kNotCalled,
                      .roots = {{1, "B", HangClass::kNotCalled, Doing::kStopped},
                                {2, "B", HangClass::kNotCalled, Doing::kStopped}},
                      .waits_for = {1, 2}})
                .substr(0, 25),
            "each of which is stopped:");
}

TEST_F(HangJudgeTest, FollowsAQueuedRankToWhatItsStreamWaitsFor) {
  does[6] = From(0, Doing::kStopped);
  waiting = [this](uint64_t) {
    Wait(1, 4, 2 * kSecond, {0, 1}, {3}, Awaited::kStream);
    Wait(2, 9, kSecond, {3}, {5});
  };
  RunUntil(20 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->roots.front().rank, 5);
}

// What its stream waits for is no reason while the program itself computes.
TEST_F(HangJudgeTest, DoesNotFollowARankThatRuns) {
  does[4] = [](uint64_t) { return Doing::kRunning; };
  waiting = [this](uint64_t) {
    Wait(1, 4, 2 * kSecond, {0, 1}, {3});
    Wait(2, 9, kSecond, {3}, {5});
  };
  RunUntil(20 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->hang, HangClass::kComputing);
}

TEST_F(HangJudgeTest, NamesRanksThatWaitForEachOther) {
  waiting = [this](uint64_t) {
    Wait(1, 4, 2 * kSecond, {0}, {1});
    Wait(2, 9, kSecond, {1}, {0});
  };
  RunUntil(20 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  ASSERT_NE(Of(2), nullptr);
  EXPECT_EQ(Of(1)->hang, HangClass::kNotCalled);
  EXPECT_EQ(Of(2)->hang, HangClass::kNotCalled);
}

TEST_F(HangJudgeTest, BelievesWhatARanksDaemonSaysOfIt) {
  waiting = [this](uint64_t) {
    Wait(1, 4, kSecond, {0}, {3}).awaited.front().behind = {
        {8, "tp1", HangClass::kNotCalled, Doing::kStopped}};
  };
  RunUntil(5 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->roots.front().communicator, "tp1");
}

// Two ranks of one process: that one of them waits says nothing of the other.
TEST_F(HangJudgeTest, DoesNotFollowAProcessWithSeveralRanks) {
  does[6] = From(0, Doing::kStopped);
  waiting = [this](uint64_t) {
    Wait(1, 4, 2 * kSecond, {0, 1}, {3}).awaited.front().alone = false;
    Wait(2, 9, kSecond, {3}, {5});
  };
  RunUntil(20 * kSecond);
  EXPECT_EQ(Of(1)->roots.front().rank, 3);
}

// ---------------------------------------------------------------------------------------------
// Changes

TEST_F(HangJudgeTest, DoesNotFlap) {
  // Sleeps for most of the time, and runs for a moment now and then.
  does[3] = [](uint64_t now) {
    return now % (7 * kSecond) < 500 * kMs ? Doing::kRunning : Doing::kSleeping;
  };
  waiting = [this](uint64_t) { Wait(1, 4, kSecond, {0, 1}, {2}); };
  RunUntil(120 * kSecond);
  EXPECT_TRUE(heard.back().ends_with("B not_called sleeping")) << heard.back();
  EXPECT_LE(heard.size(), 2u) << "it may be seen running when it is first told of";
}

TEST_F(HangJudgeTest, TellsThatAStoppedRankGoesOn) {
  does[3] = [](uint64_t now) { return now < 10 * kSecond ? Doing::kStopped : Doing::kRunning; };
  waiting = [this](uint64_t now) {
    if (now < 20 * kSecond) Wait(1, 4, kSecond, {0, 1}, {2});
  };
  RunUntil(22 * kSecond);
  EXPECT_EQ(heard, Strings({"raised B not_called stopped", "changed B computing running",
                            "cleared B called_late running"}));
}

TEST_F(HangJudgeTest, KeepsTheVerdictOfABrokenCommunicator) {
  does[3] = From(0, Doing::kStopped);
  waiting = [this](uint64_t now) {
    if (now < 10 * kSecond) Wait(1, 4, kSecond, {0, 1}, {2});
  };
  RunUntil(9 * kSecond);
  judge_.Keep(1);
  RunUntil(60 * kSecond);
  ASSERT_NE(Of(1), nullptr);
  EXPECT_EQ(Of(1)->doing, Doing::kStopped);
  EXPECT_EQ(judge_.Clear(1, false, now_).size(), 1u);
  EXPECT_EQ(Of(1), nullptr);
}

TEST_F(HangJudgeTest, TakesInVerdictsThatNeedNoFacts) {
  Verdict dead{.communicator = 1, .label = "B", .hang = HangClass::kDead, .asked = "rank 2 died"};
  dead.roots = {{2, "B", HangClass::kDead, Doing::kEnded}};
  ASSERT_EQ(judge_.Set(dead, now_).size(), 1u);
  EXPECT_EQ(judge_.Set(dead, now_).size(), 0u) << "it says the same";
  RunUntil(10 * kSecond);
  EXPECT_EQ(Of(1)->text, "rank 2 died");
}

TEST(ProcessTable, LooksAtATenantsProcessesInTurnsAndForgetsThem) {
  ProcessTable table(2 * kSecond);
  int looks = 0;
  for (uint32_t process = 1; process <= 500; ++process) {
    looks += table.Want(process, 7, kSecond) ? 1 : 0;
  }
  EXPECT_GT(looks, 0);
  EXPECT_LT(looks, 100);
  EXPECT_TRUE(table.Want(1000, 8, kSecond)) << "another tenant's is looked at all the same";
  EXPECT_FALSE(table.Want(1, 7, kSecond + 10 * kMs)) << "it was looked at a moment ago";
  table.Note(1, Doing::kStopped, 2 * kSecond);
  EXPECT_EQ(table.Of(1, 2 * kSecond).doing, Doing::kStopped);
  table.ForgetOld(600 * kSecond);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.Of(1, 600 * kSecond).doing, Doing::kUnknown);
}

TEST(GapEstimate, IsNearTheLargestGapOfLate) {
  GapEstimate gap;
  uint64_t now = kSecond;
  EXPECT_EQ(gap.gap_ns(), 0u);
  for (int i = 0; i < 100; ++i) gap.Note(now += 100 * kMs);
  EXPECT_EQ(gap.gap_ns(), 100 * kMs);
  gap.Note(now += 30 * kSecond);
  EXPECT_EQ(gap.gap_ns(), 30 * kSecond);
  for (int i = 0; i < 1000; ++i) gap.Note(now += 100 * kMs);
  EXPECT_LT(gap.gap_ns(), 200 * kMs);
  gap.Note(now += 10 * kSecond, 99);
  EXPECT_LT(gap.gap_ns(), 200 * kMs) << "there were others meanwhile";
  gap.Note(now + 100'000 * kSecond);
  EXPECT_LE(gap.gap_ns(), 600 * kSecond);
}

}  // namespace
}  // namespace harmonaize::daemon
