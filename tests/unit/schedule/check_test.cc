#include "src/schedule/check/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/schedule/algorithms/one_host.h"
#include "tests/unit/schedule/interpreter.h"
#include "tests/unit/schedule/programs.h"

namespace harmonaize {
namespace {

// Wrong schedules, each with one mistake, and the words in which Check has to name it. The
// mistakes that an execution can show are shown by the interpreter too.

void ExpectError(const Schedule& schedule, const std::vector<std::string>& words) {
  const Status status = Check(schedule);
  EXPECT_EQ(status.code(), Code::kInternalError) << Describe(schedule);
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "no '" << word << "' in: " << status.message() << "\n"
        << Describe(schedule);
  }
}

void ExpectHarm(const Schedule& schedule, const std::vector<std::string>& words) {
  ExpectError(schedule, words);
  EXPECT_TRUE(RunOften(schedule, 300, 1)) << Describe(schedule);
}

Step& StepOf(Schedule& schedule, size_t host, size_t step) {
  return schedule.programs[host].steps[step];
}

TEST(CheckTest, NamesTheSchedule) {
  Schedule schedule = OneHost(Collective::kGather, 3, 1, false);
  schedule.programs[0].steps.pop_back();
  EXPECT_EQ(Check(schedule).message(),
            "schedule one-host (Gather, 3 ranks): no step of host 0 writes output 1[2]");
}

TEST(CheckTest, MissingSteps) {
  Schedule schedule = RingAllGather({1, 1, 1}, false);
  schedule.programs[1].steps.erase(schedule.programs[1].steps.begin() + 1);  // the first receive
  for (Step& step : schedule.programs[1].steps) step.after.clear();
  ExpectHarm(schedule, {"host 0 step ", "(send) has no match", "to host 1, which receives 1"});

  schedule = RingReduceScatter({1, 1}, false);
  schedule.programs[0].steps.erase(schedule.programs[0].steps.begin());
  for (Step& step : schedule.programs[0].steps) step.after.clear();
  ExpectHarm(schedule, {"host 0 step 0 (send) reads scratch[0], which holds nothing yet"});
}

TEST(CheckTest, MissingDependencies) {
  Schedule schedule = RingAllGather({1, 1, 1}, false);
  StepOf(schedule, 0, 1).after.clear();
  ExpectHarm(schedule, {"race: ", "host 0 step 1 (send)", "host 0 step 0 (copy)", "output 0[0]"});

  // Nothing is read too early here: a slot is received into before it has been sent on.
  schedule = RingReduceScatter({1, 1, 1, 1}, false);
  size_t found = 0;
  for (Step& step : schedule.programs[0].steps) {
    if (step.kind != StepKind::kReceiveReduce || step.after.empty()) continue;
    step.after.clear();
    ++found;
  }
  ASSERT_GT(found, 0u);
  ExpectHarm(schedule, {"race: host 0 step 4 (receive-reduce) writes scratch[0]"});
}

TEST(CheckTest, WritesWaitForReads) {
  // The slot's first use is over when it has been sent on, not when it has been filled.
  Schedule schedule = RingReduceScatter({1, 1, 1, 1}, false);
  ASSERT_EQ(StepOf(schedule, 0, 4).after, std::vector<int>{1});
  StepOf(schedule, 0, 4).after = {0};
  ExpectHarm(schedule, {"race: host 0 step 4 (receive-reduce) writes scratch[0], which host 0 "
                        "step 1 (send) reads"});
}

TEST(CheckTest, WritesWaitForWrites) {
  Schedule schedule = OneHost(Collective::kAllGather, 2, -1, false);
  auto& steps = schedule.programs[0].steps;
  steps.insert(steps.begin(), {.kind = StepKind::kCopy,
                               .sources = {InputBlock(1, 0)},
                               .destinations = {OutputBlock(0, 0)}});
  ExpectHarm(schedule, {"race: host 0 step 1 (copy) writes output 0[0], which host 0 step 0 (copy) "
                        "writes"});
  steps[1].after = {0};
  EXPECT_TRUE(Check(schedule).ok()) << Check(schedule).ToString();
}

TEST(CheckTest, ListOrderIsNotOrder) {
  Schedule schedule = ChainAllReduce({1, 1}, false);
  StepOf(schedule, 0, 1).after.clear();  // still behind the reduce in the list
  ExpectHarm(schedule, {"race: ", "scratch[0]", "nothing orders the two"});
}

TEST(CheckTest, WrongBlocks) {
  Schedule schedule = OneHost(Collective::kAllToAll, 3, -1, false);
  StepOf(schedule, 0, 1).sources[0].index = 1;
  ExpectHarm(schedule, {"host 0 step 1 (copy) leaves in output 0[1] data of input 1[1] instead of "
                        "input 1[0]"});

  schedule = OneHost(Collective::kReduceScatter, 3, -1, false);
  StepOf(schedule, 0, 2).sources[1].index = 0;
  ExpectHarm(schedule, {"host 0 step 2 (reduce) combines input 0[2] with input 1[0]"});

  schedule = OneHost(Collective::kReduceScatter, 2, -1, false);
  for (Block& source : StepOf(schedule, 0, 1).sources) source.index = 0;
  ExpectHarm(schedule, {"leaves in output 1[0] data of input 0[0] instead of input 0[1]"});
}

TEST(CheckTest, WrongContributions) {
  Schedule schedule = OneHost(Collective::kAllReduce, 4, -1, false);
  StepOf(schedule, 0, 0).sources.push_back(InputBlock(2, 0));
  ExpectHarm(schedule, {"host 0 step 0 (reduce) counts input 2[0] twice"});

  schedule = OneHost(Collective::kAllReduce, 4, -1, false);
  StepOf(schedule, 0, 0).sources.erase(StepOf(schedule, 0, 0).sources.begin() + 1);
  ExpectHarm(schedule, {"host 0 step 0 (reduce) leaves in output 0[0]", "lacks input 1[0]"});

  schedule = OneHost(Collective::kAllReduce, 4, -1, false);
  StepOf(schedule, 0, 0).destinations.pop_back();
  ExpectHarm(schedule, {"no step of host 0 writes output 3[0]"});
}

TEST(CheckTest, MessagesOutOfOrder) {
  // Host 0 sends its two ranks' blocks as steps 2 and 3.
  Schedule schedule = RingAllGather({2, 1}, false);
  ASSERT_EQ(StepOf(schedule, 0, 2).kind, StepKind::kSend);
  ASSERT_EQ(StepOf(schedule, 0, 3).kind, StepKind::kSend);
  std::swap(StepOf(schedule, 0, 2), StepOf(schedule, 0, 3));
  ExpectHarm(schedule, {"host 1 step ", "(receive) leaves in output 2[0] data of input 1[0]"});

  schedule = RingAllReduce({1, 1, 1}, false);
  std::vector<size_t> sends;
  for (size_t i = 0; i < schedule.programs[0].steps.size(); ++i) {
    if (StepOf(schedule, 0, i).kind == StepKind::kSend) sends.push_back(i);
  }
  std::swap(StepOf(schedule, 0, sends[0]).sources, StepOf(schedule, 0, sends[1]).sources);
  ExpectError(schedule, {"host 0 step 1 (send) sends scratch[2], a different piece than host 1"});
}

/// Two hosts that give each other one block (an all-gather of 2 ranks), each as `order` says.
Schedule Swap(bool send_first_on_0, bool send_first_on_1) {
  Schedule schedule = RingAllGather({1, 1}, false);
  const bool send_first[] = {send_first_on_0, send_first_on_1};
  for (int host = 0; host < 2; ++host) {
    const int other = 1 - host;
    const Step send{.kind = StepKind::kSend, .sources = {InputBlock(host, 0)}, .peer_host = other};
    const Step receive{
        .kind = StepKind::kReceive, .destinations = {OutputBlock(host, other)}, .peer_host = other};
    auto& steps = schedule.programs[static_cast<size_t>(host)].steps;
    steps.resize(1);  // the copy of the own block
    steps.push_back(send_first[host] ? send : receive);
    steps.push_back(send_first[host] ? receive : send);
    steps[2].after = {1};
  }
  return schedule;
}

TEST(CheckTest, Deadlocks) {
  EXPECT_TRUE(Check(Swap(true, false)).ok());
  ExpectHarm(Swap(false, false), {"deadlock: ", "host 0 step ", "host 1 step ", " waits for "});
  // Right only as long as the transport buffers a whole block: not a promise we can make.
  ExpectHarm(Swap(true, true), {"deadlock: "});
}

TEST(CheckTest, PathsDoNotWaitForEachOther) {
  // Both hosts' second messages overtake the first ones: a deadlock by one path, none by two.
  Schedule schedule = RingAllGather({2, 2}, false);
  for (int host = 0; host < 2; ++host) {
    auto& steps = schedule.programs[static_cast<size_t>(host)].steps;
    steps.resize(2);  // the copies of the own blocks
    const int own = 2 * host;
    const int other = 2 - own;
    const auto send = [&](int rank, std::vector<int> after) {
      steps.push_back({.kind = StepKind::kSend,
                       .sources = {InputBlock(rank, 0)},
                       .peer_host = 1 - host,
                       .after = std::move(after)});
    };
    const auto receive = [&](int rank) {
      steps.push_back({.kind = StepKind::kReceive,
                       .destinations = {OutputBlock(own, rank), OutputBlock(own + 1, rank)},
                       .peer_host = 1 - host});
    };
    receive(other);
    receive(other + 1);
    send(own, {3});  // after the other's second
    send(own + 1, {});
  }
  ExpectHarm(schedule, {"deadlock: "});
  for (HostProgram& program : schedule.programs) {
    program.steps[3].path = 1;
    program.steps[5].path = 1;
  }
  EXPECT_TRUE(Check(schedule).ok()) << Check(schedule).ToString();
  EXPECT_FALSE(RunOften(schedule, 50, 1));
  EXPECT_NE(Describe(schedule).find("send input 1[0] to host 1 by path 1\n"), std::string::npos)
      << Describe(schedule);
}

TEST(CheckTest, DeadlockByTheOrderOfMessages) {
  // Host 1 answers the second message, and host 0 sends the first one after the answer.
  Schedule schedule = RingAllGather({2, 1}, false);
  auto& two = schedule.programs[0].steps;
  two.resize(2);  // the copies of the own blocks
  two.push_back({.kind = StepKind::kReceive,
                 .destinations = {OutputBlock(0, 2), OutputBlock(1, 2)},
                 .peer_host = 1});
  two.push_back(
      {.kind = StepKind::kSend, .sources = {InputBlock(0, 0)}, .peer_host = 1, .after = {2}});
  two.push_back({.kind = StepKind::kSend, .sources = {InputBlock(1, 0)}, .peer_host = 1});
  auto& one = schedule.programs[1].steps;
  one.resize(1);
  for (const int rank : {0, 1}) {
    one.push_back(
        {.kind = StepKind::kReceive, .destinations = {OutputBlock(2, rank)}, .peer_host = 0});
  }
  one.push_back(
      {.kind = StepKind::kSend, .sources = {InputBlock(2, 0)}, .peer_host = 0, .after = {1}});
  ExpectHarm(schedule, {"deadlock: the message from ", " waits for the message from "});
  one.back().after = {2};
  ExpectHarm(schedule, {"deadlock: the message from ", " waits for the message from "});
  two[3].after.clear();
  EXPECT_TRUE(Check(schedule).ok()) << Check(schedule).ToString();
}

TEST(CheckTest, InPlaceHazards) {
  // Ordered, right out of place, and wrong in place: rank 0's input is overwritten, then read.
  Schedule schedule = OneHost(Collective::kAllToAll, 2, -1, false);
  auto& steps = schedule.programs[0].steps;
  for (size_t i = 1; i < steps.size(); ++i) steps[i].after = {static_cast<int>(i) - 1};
  EXPECT_TRUE(Check(schedule).ok());
  schedule.in_place = true;
  ExpectHarm(schedule, {"host 0 step 2 (copy) reads input 0[1], which host 0 step 1 (copy) has "
                        "overwritten if rank 0 is in place"});
  // Unordered, the same two steps race.
  for (Step& step : steps) step.after.clear();
  ExpectHarm(schedule, {"race: host 0 step 2 (copy)", "the same memory in place"});
}

TEST(CheckTest, NeitherPlaceIsTakenForGranted) {
  // In place the root's own block is where it should be; out of place somebody has to copy it.
  Schedule schedule = OneHost(Collective::kGather, 2, 0, true);
  auto& steps = schedule.programs[0].steps;
  steps.erase(steps.begin());
  ExpectHarm(schedule, {"no step of host 0 writes output 0[0]"});
  // And an output holds no input before it has been written.
  schedule = OneHost(Collective::kAllReduce, 2, -1, true);
  StepOf(schedule, 0, 0).sources[1] = OutputBlock(1, 0);
  ExpectHarm(schedule, {"host 0 step 0 (reduce) reads output 1[0], which holds nothing yet"});
}

TEST(CheckTest, RefusesToWriteInputsOrABlockTwice) {
  Schedule schedule = OneHost(Collective::kBroadcast, 2, 0, true);
  StepOf(schedule, 0, 0).destinations[0] = InputBlock(0, 0);
  ExpectError(schedule, {"host 0 step 0 (copy) writes input 0[0], an input"});
  schedule = OneHost(Collective::kBroadcast, 2, 0, true);
  StepOf(schedule, 0, 0).destinations.push_back(OutputBlock(1, 0));
  ExpectError(schedule, {"host 0 step 0 (copy) writes output 1[0] twice"});
}

struct BadShape {
  const char* words;
  std::function<void(Schedule&)> spoil;
};

TEST(CheckTest, Shapes) {
  const std::vector<BadShape> shapes = {
      {"0 ranks", [](Schedule& s) { s.ranks = 0; }},
      {"0 pieces", [](Schedule& s) { s.pieces = 0; }},
      {"too many blocks", [](Schedule& s) { s.pieces = 1 << 30; }},
      {"root 0 of 3 ranks", [](Schedule& s) { s.root = 0; }},
      {"hosts of 2", [](Schedule& s) { s.host_of_rank.pop_back(); }},
      {"host 5 of rank 0 has no program", [](Schedule& s) { s.host_of_rank[0] = 5; }},
      {"host 0 has two programs", [](Schedule& s) { s.programs[1].host = 0; }},
      {"a program of host -1", [](Schedule& s) { s.programs[1].host = -1; }},
      {"-1 scratch blocks", [](Schedule& s) { s.programs[0].scratch_blocks = -1; }},
      {"collective 9", [](Schedule& s) { s.collective = Collective::kReceive; }},
      {"a send has 2 ranks", [](Schedule& s) { s.collective = Collective::kSend; }},
      {"input 1[7]: out of range", [](Schedule& s) { StepOf(s, 0, 0).sources[1].index = 7; }},
      {"input 0[-1]: out of range", [](Schedule& s) { StepOf(s, 0, 0).sources[0].index = -1; }},
      {"no such rank", [](Schedule& s) { StepOf(s, 0, 0).sources[1].rank = 3; }},
      {"on another host", [](Schedule& s) { StepOf(s, 0, 0).sources[1].rank = 2; }},
      {"different pieces", [](Schedule& s) { StepOf(s, 0, 0).sources[1].index = 1; }},
      {"no known space", [](Schedule& s) { StepOf(s, 0, 0).sources[1].space = Space{9}; }},
      {"unknown kind 77", [](Schedule& s) { StepOf(s, 0, 0).kind = StepKind{77}; }},
      {"has 2 sources and 1 dest", [](Schedule& s) { StepOf(s, 0, 0).kind = StepKind::kExchange; }},
      {"without a message", [](Schedule& s) { StepOf(s, 0, 0).peer_host = 1; }},
      {"and the path 3 without a message", [](Schedule& s) { StepOf(s, 0, 0).path = 3; }},
      {"takes path -2", [](Schedule& s) { StepOf(s, 0, 1).path = -2; }},
      {"host 0 sends 1 messages to host 1, which receives 2",
       [](Schedule& s) { StepOf(s, 0, 1).path = 4; }},
      {"host 0 as its peer", [](Schedule& s) { StepOf(s, 0, 1).peer_host = 0; }},
      {"host 9 as its peer", [](Schedule& s) { StepOf(s, 0, 1).peer_host = 9; }},
      {"is after step 1", [](Schedule& s) { StepOf(s, 0, 1).after = {1}; }},
      {"is after step -1", [](Schedule& s) { StepOf(s, 0, 1).after = {-1}; }},
      {"has no operator",
       [](Schedule& s) {
         s = OneHost(Collective::kBroadcast, 2, 0, false);
         StepOf(s, 0, 0).kind = StepKind::kReduce;
       }},
  };
  for (const BadShape& shape : shapes) {
    Schedule schedule = RingAllReduce({2, 1}, false);
    ASSERT_TRUE(Check(schedule).ok());
    shape.spoil(schedule);
    ExpectError(schedule, {shape.words});
  }
}

}  // namespace
}  // namespace harmonaize
