#include "src/ipc/tuning_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace harmonaize {
namespace {

using std::chrono::microseconds;

constexpr int kRanks = 3;

TuningTable TableOf(float mark) {
  TuningTable table{};
  for (auto& function : table.cells) {
    for (TuningCell& cell : function) {
      for (auto& row : cell.factors) std::fill(std::begin(row), std::end(row), mark);
    }
  }
  return table;
}

/// Returns the mark of a table, of which every cell has to have it.
float MarkOf(const TuningTable& table) {
  const float first = table.cells[0][0].factors[0][0];
  const float last = table.cells[kTunedFunctions - 1][kTunedSizes - 1].factors[6][2];
  return first == last ? first : -1;
}

bool Lives() {
  return true;
}

/// A daemon and its ranks in one process, so that the thread sanitizer sees all of them.
struct Shared {
  std::unique_ptr<TuningSegment> segment = std::make_unique<TuningSegment>();
  std::array<TuningPosition, kRanks> positions{};
  TuningWriter writer{segment.get(), TableOf(1)};

  uint64_t MostCalls() const {
    uint64_t most = 0;
    for (const TuningPosition& one : positions) most = std::max(most, one.calls.load());
    return most;
  }
  /// Returns whether all ranks are past the newest table's first call.
  bool AllThere() const {
    return writer.begins() == 0 ||
           std::all_of(positions.begin(), positions.end(), [&](const TuningPosition& one) {
             return one.calls.load() > writer.begins();
           });
  }
};

TEST(TuningReader, TablesBeginAtTheirCalls) {
  Shared shared;
  TuningReader reader(shared.segment.get(), &shared.positions[0]);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, Lives)), 1);
  shared.writer.HoldFrom(3);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, Lives)), 1);
  shared.writer.Commit(TableOf(2), 3);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, Lives)), 1);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, Lives)), 2);
  EXPECT_EQ(shared.positions[0].calls.load(), 4u);
}

TEST(TuningReader, ARankStaysWithItsTableWhereTheDaemonIsGone) {
  Shared shared;
  TuningReader reader(shared.segment.get(), &shared.positions[0]);
  shared.writer.HoldFrom(0);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, [] { return false; })), 1);
  EXPECT_EQ(shared.positions[0].gave_up.load(), 1u);
  shared.writer.Commit(TableOf(2), 0);
  EXPECT_EQ(MarkOf(reader.Next(4, 100, Lives)), 1);
}

TEST(TuningReader, CheckpointsTellWhatWasAsked) {
  Shared shared;
  TuningReader one(shared.segment.get(), &shared.positions[0]);
  TuningReader alike(shared.segment.get(), &shared.positions[1]);
  TuningReader other(shared.segment.get(), &shared.positions[2]);
  for (uint64_t i = 0; i < 3 * kCallsBetweenCheckpoints; ++i) {
    one.Next(4, 1000 + i, Lives);
    alike.Next(4, 1000 + i, Lives);
    other.Next(4, 1000 + (i == 40 ? 0 : i), Lives);
  }
  const auto& checkpoints = shared.positions[0].checkpoints;
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(checkpoints[i].load() >> 32, i);
    EXPECT_EQ(checkpoints[i].load(), shared.positions[1].checkpoints[i].load());
  }
  EXPECT_EQ(checkpoints[1].load(), shared.positions[2].checkpoints[1].load());
  EXPECT_NE(checkpoints[2].load(), shared.positions[2].checkpoints[2].load());
  EXPECT_NE(checkpoints[3].load(), shared.positions[2].checkpoints[3].load());
}

TEST(TuningReader, AllRanksChangeAtTheSameCall) {
  Shared shared;
  std::atomic<bool> done{false};
  std::array<std::vector<float>, kRanks> marks;
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      TuningReader reader(shared.segment.get(), &shared.positions[rank]);
      std::mt19937 random(static_cast<unsigned>(rank));
      while (!done.load(std::memory_order_relaxed)) {
        marks[rank].push_back(MarkOf(reader.Next(4, 100, Lives)));
        if (random() % 32 == 0) std::this_thread::sleep_for(microseconds(random() % 100));
      }
    });
  }
  std::mt19937 random(7);
  int changes = 0;
  for (int round = 0; round < 300; ++round) {
    std::this_thread::sleep_for(microseconds(random() % 3000));
    if (!shared.AllThere()) continue;
    const uint64_t hold = shared.MostCalls() + random() % 100;
    shared.writer.HoldFrom(hold);
    const uint64_t from = std::max(hold, shared.MostCalls());
    if (random() % 4 == 0) std::this_thread::sleep_for(microseconds(random() % 500));
    if (random() % 4 == 0) {
      shared.writer.Release();
    } else {
      shared.writer.Commit(TableOf(static_cast<float>(round + 2)), from);
      ++changes;
    }
  }
  done = true;
  for (std::thread& rank : ranks) rank.join();
  EXPECT_GE(changes, 10);
  const size_t calls = std::min({marks[0].size(), marks[1].size(), marks[2].size()});
  for (size_t call = 0; call < calls; ++call) {
    ASSERT_GT(marks[0][call], 0) << "a table that is half of another, at call " << call;
    ASSERT_EQ(marks[0][call], marks[1][call]) << call;
    ASSERT_EQ(marks[0][call], marks[2][call]) << call;
  }
}

}  // namespace
}  // namespace harmonaize
