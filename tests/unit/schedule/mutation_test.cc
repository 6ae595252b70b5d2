#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/schedule/algorithms/algorithms.h"
#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/check/check.h"
#include "tests/support/sanitized.h"
#include "tests/unit/schedule/interpreter.h"
#include "tests/unit/schedule/programs.h"
#include "tests/unit/schedule/testing.h"

namespace harmonaize {
namespace {

// Right schedules, spoilt at random. Whatever the interpreter can show to be harmful, Check has to
// reject. The reverse cannot be asked: Check proves all orders and the interpreter tries some, and
// two steps that race to write the same value do no harm.

using Random = std::mt19937_64;

size_t Pick(Random& random, size_t below) {
  return random() % below;
}

template <typename T>
T& PickFrom(Random& random, std::vector<T>& from) {
  return from[Pick(random, from.size())];
}

/// One random step, of a program that has any.
Step* PickStep(Random& random, Schedule& schedule, HostProgram** of = nullptr) {
  HostProgram& program = PickFrom(random, schedule.programs);
  if (of != nullptr) *of = &program;
  return program.steps.empty() ? nullptr : &PickFrom(random, program.steps);
}

Block* PickBlock(Random& random, Step& step) {
  auto& blocks = random() % 2 == 0 ? step.sources : step.destinations;
  return blocks.empty() ? nullptr : &PickFrom(random, blocks);
}

// Each mutation returns whether it found something to change.

bool DropStep(Random& random, Schedule& schedule) {
  HostProgram& program = PickFrom(random, schedule.programs);
  if (program.steps.empty()) return false;
  const auto dropped = static_cast<int>(Pick(random, program.steps.size()));
  program.steps.erase(program.steps.begin() + dropped);
  for (Step& step : program.steps) {
    std::erase(step.after, dropped);
    for (int& before : step.after) before -= before > dropped ? 1 : 0;
  }
  return true;
}

bool DropDependency(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr || step->after.empty()) return false;
  step->after.erase(step->after.begin() +
                    static_cast<std::ptrdiff_t>(Pick(random, step->after.size())));
  return true;
}

bool AddDependency(Random& random, Schedule& schedule) {
  HostProgram& program = PickFrom(random, schedule.programs);
  if (program.steps.size() < 2) return false;
  const size_t later = 1 + Pick(random, program.steps.size() - 1);
  program.steps[later].after.push_back(static_cast<int>(Pick(random, later)));
  return true;
}

bool ChangeIndex(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  Block* block = step == nullptr ? nullptr : PickBlock(random, *step);
  if (block == nullptr) return false;
  block->index += random() % 2 == 0 ? 1 : -1;
  return true;
}

bool ChangeRank(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  Block* block = step == nullptr ? nullptr : PickBlock(random, *step);
  if (block == nullptr || block->space == Space::kScratch) return false;
  block->rank = static_cast<int>(Pick(random, static_cast<size_t>(schedule.ranks)));
  return true;
}

bool ChangeSpace(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  Block* block = step == nullptr ? nullptr : PickBlock(random, *step);
  if (block == nullptr || block->space == Space::kScratch) return false;
  block->space = block->space == Space::kInput ? Space::kOutput : Space::kInput;
  return true;
}

bool SwapBlocks(Random& random, Schedule& schedule) {
  HostProgram* program = nullptr;
  Step* one = PickStep(random, schedule, &program);
  if (one == nullptr) return false;
  Step& other = PickFrom(random, program->steps);
  const bool sources = random() % 2 == 0;
  auto& of_one = sources ? one->sources : one->destinations;
  auto& of_other = sources ? other.sources : other.destinations;
  if (of_one.empty() || of_other.empty()) return false;
  std::swap(PickFrom(random, of_one), PickFrom(random, of_other));
  return true;
}

bool DuplicateBlock(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr) return false;
  auto& blocks = random() % 2 == 0 ? step->sources : step->destinations;
  if (blocks.empty()) return false;
  blocks.push_back(Block(PickFrom(random, blocks)));
  return true;
}

bool DropBlock(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr) return false;
  auto& blocks = random() % 2 == 0 ? step->sources : step->destinations;
  if (blocks.empty()) return false;
  blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(Pick(random, blocks.size())));
  return true;
}

/// Two steps of a kind and peer change what they carry: messages in another order.
bool ReverseMessages(Random& random, Schedule& schedule) {
  HostProgram* program = nullptr;
  Step* one = PickStep(random, schedule, &program);
  if (one == nullptr || one->peer_host < 0) return false;
  Step& other = PickFrom(random, program->steps);
  if (&other == one || other.kind != one->kind || other.peer_host != one->peer_host) return false;
  std::swap(one->sources, other.sources);
  std::swap(one->destinations, other.destinations);
  return true;
}

/// Another list order of one program that its dependencies allow.
bool Reorder(Random& random, Schedule& schedule) {
  HostProgram& program = PickFrom(random, schedule.programs);
  const size_t count = program.steps.size();
  if (count < 2) return false;
  const size_t first = Pick(random, count - 1);
  Step& one = program.steps[first];
  Step& two = program.steps[first + 1];
  for (const int before : two.after) {
    if (before == static_cast<int>(first)) return false;
  }
  std::swap(one, two);
  for (Step& step : program.steps) {
    for (int& before : step.after) {
      if (before == static_cast<int>(first)) {
        before = static_cast<int>(first) + 1;
      } else if (before == static_cast<int>(first) + 1) {
        before = static_cast<int>(first);
      }
    }
  }
  return true;
}

bool ChangeKind(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr) return false;
  step->kind = static_cast<StepKind>(Pick(random, kStepKindCount));
  return true;
}

bool ChangePeer(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr || step->peer_host < 0) return false;
  step->peer_host = static_cast<int>(Pick(random, schedule.programs.size()));
  return true;
}

bool ChangePath(Random& random, Schedule& schedule) {
  Step* step = PickStep(random, schedule);
  if (step == nullptr || step->peer_host < 0) return false;
  step->path = step->path >= 0 ? -1 : 1;
  return true;
}

bool AllowInPlace(Random&, Schedule& schedule) {
  if (schedule.in_place) return false;
  schedule.in_place = true;
  return true;
}

struct Mutation {
  const char* name;
  bool (*apply)(Random&, Schedule&);
};
constexpr std::array kMutations = {
    Mutation{"drop step", DropStep},
    Mutation{"drop dependency", DropDependency},
    Mutation{"add dependency", AddDependency},
    Mutation{"change index", ChangeIndex},
    Mutation{"change rank", ChangeRank},
    Mutation{"change space", ChangeSpace},
    Mutation{"swap blocks", SwapBlocks},
    Mutation{"duplicate block", DuplicateBlock},
    Mutation{"drop block", DropBlock},
    Mutation{"reverse messages", ReverseMessages},
    Mutation{"reorder", Reorder},
    Mutation{"change kind", ChangeKind},
    Mutation{"change peer", ChangePeer},
    Mutation{"change path", ChangePath},
    Mutation{"allow in place", AllowInPlace},
};

std::vector<Schedule> RightSchedules() {
  std::vector<Schedule> schedules;
  for (const bool in_place : {false, true}) {
    for (int collective = 0; collective < kCollectiveCount; ++collective) {
      for (const int ranks : {2, 3}) {
        schedules.push_back(
            OneHost(static_cast<Collective>(collective), ranks, ranks - 1, in_place));
      }
    }
    const std::vector<std::vector<int>> hosts = {
        {1, 1}, {2, 1}, {1, 1, 1}, {1, 2, 1}, {1, 1, 2, 1}};
    for (const std::vector<int>& ranks_per_host : hosts) {
      schedules.push_back(RingAllReduce(ranks_per_host, in_place));
      schedules.push_back(RingAllGather(ranks_per_host, in_place));
      schedules.push_back(RingReduceScatter(ranks_per_host, in_place));
      schedules.push_back(ChainAllReduce(ranks_per_host, in_place));
    }
    for (const Algorithm& algorithm : Algorithms()) {
      if (in_place && !algorithm.in_place) continue;
      for (const Collective collective : algorithm.collectives) {
        const Problem problem{collective, {0, 1, 0, 2}, HasRoot(collective) ? 3 : -1, in_place};
        const OutlineResult outline =
            algorithm.make(problem, {.pieces = 1, .groups = {{0, 1}, {2}}});
        if (outline.ok()) schedules.push_back((*outline)->Write());  // not where one host is needed
      }
    }
  }
  return schedules;
}

struct Tally {
  int made = 0;
  int harmful = 0;
  int rejected = 0;
};

class MutationTest : public testing::TestWithParam<size_t> {};

TEST_P(MutationTest, HarmIsRejected) {
  const Mutation& mutation = kMutations[GetParam()];
  Random random(1000 + GetParam());
  Tally tally;
  for (const Schedule& right : RightSchedules()) {
    for (int attempt = 0; attempt < (kSanitized ? 8 : 24); ++attempt) {
      Schedule mutant = right;
      if (!mutation.apply(random, mutant)) continue;
      // Some with a second mistake, which may hide the first.
      if (random() % 4 == 0) kMutations[Pick(random, kMutations.size())].apply(random, mutant);
      ++tally.made;
      const Status status = Check(mutant);
      const auto harm = RunOften(mutant, status.ok() ? 60 : 10, random());
      tally.harmful += harm ? 1 : 0;
      tally.rejected += status.ok() ? 0 : 1;
      ASSERT_TRUE(!harm || !status.ok()) << *harm << ", and Check is content with\n"
                                         << Describe(mutant);
    }
  }
  EXPECT_GT(tally.made, 50);
  EXPECT_GT(tally.harmful, 0);
  RecordProperty("made", tally.made);
  RecordProperty("harmful", tally.harmful);
  RecordProperty("rejected", tally.rejected);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MutationTest, testing::Range(size_t{0}, kMutations.size()),
                         [](const auto& test) {
                           std::string name;
                           for (const char* c = kMutations[test.param].name; *c != '\0'; ++c) {
                             if (*c != ' ') name += *c;
                           }
                           return name;
                         });

TEST(HarmlessMutationTest, IsAccepted) {
  // What changes nothing must not be rejected: a dependency said twice, and another list order of
  // steps that are independent and no messages.
  Random random(5);
  for (const Schedule& right : RightSchedules()) {
    Schedule mutant = right;
    for (HostProgram& program : mutant.programs) {
      for (Step& step : program.steps) {
        if (!step.after.empty()) step.after.push_back(step.after[0]);
      }
    }
    EXPECT_TRUE(Check(mutant).ok()) << Check(mutant).ToString();
    if (right.programs.size() > 1) continue;
    for (int i = 0; i < 10; ++i) Reorder(random, mutant);
    EXPECT_TRUE(Check(mutant).ok()) << Check(mutant).ToString();
  }
}

}  // namespace
}  // namespace harmonaize
