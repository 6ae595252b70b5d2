#include "src/planner/inline_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/check/check.h"

namespace harmonaize {
namespace {

// About those of a server of today.
HostCosts ServerCosts() {
  return {.handoff_ns = 100,
          .yield_ns = 1000,
          .copy_bytes_per_second = 40e9,
          .fetch_bytes_per_second = 30e9,
          .reduce_bytes_per_second = 60e9,
          .stream_bytes_per_second = 20e9,
          .round_trip_ns = 10'000,
          .wake_ns = 1000};
}

HostShape ServerShape() {
  return {.processors = 16, .workers = 16, .last_level_bytes = size_t{64} << 20};
}

std::vector<Collective> AllCollectives() {
  std::vector<Collective> all;
  for (int i = 0; i < kCollectiveCount; ++i) all.push_back(static_cast<Collective>(i));
  return all;
}

void ForEachKind(const std::function<void(Collective, int, bool)>& call) {
  for (const Collective collective : AllCollectives()) {
    for (const int ranks : {1, 2, 3, 8, 16, 17, 32}) {
      for (const bool registered : {false, true}) {
        SCOPED_TRACE(::testing::Message() << CollectiveName(collective) << ", " << ranks << " ranks"
                                          << (registered ? ", registered" : ""));
        call(collective, ranks, registered);
      }
    }
  }
}

TEST(OffloadTraffic, IsThatOfTheSchedules) {
  for (const Collective collective : AllCollectives()) {
    for (const int ranks : {1, 2, 3, 8}) {
      const HostTraffic counted =
          CountTraffic(OneHost(collective, ranks, 0, /*in_place=*/false)).hosts.front();
      const BlockTraffic traffic = OffloadTraffic(collective, ranks);
      EXPECT_EQ(traffic.read, counted.read) << CollectiveName(collective) << " " << ranks;
      EXPECT_EQ(traffic.written, counted.written) << CollectiveName(collective) << " " << ranks;
    }
  }
}

TEST(InlineChoice, LargerOperationsTakeLonger) {
  const InlineChoice choice(ServerCosts(), ServerShape());
  ForEachKind([&](Collective collective, int ranks, bool registered) {
    HostOperation operation{collective, ranks, 0, registered};
    double before_inline = choice.InlineSeconds(operation);
    double before_offload = choice.OffloadSeconds(operation);
    EXPECT_GE(before_inline, 0);
    EXPECT_GE(before_offload, 10e-6);
    for (operation.block_bytes = 64; operation.block_bytes <= uint64_t{1} << 30;
         operation.block_bytes *= 2) {
      // Going directly may be cheaper than the slots were for half as much.
      const bool may_change = registered && operation.block_bytes <= 16384;
      if (!may_change) {
        EXPECT_GT(choice.InlineSeconds(operation), before_inline) << operation.block_bytes;
      }
      before_inline = choice.InlineSeconds(operation);
      // More workers may share it, so it need not.
      EXPECT_GE(choice.OffloadSeconds(operation), 0.999 * before_offload) << operation.block_bytes;
      before_offload = choice.OffloadSeconds(operation);
    }
  });
}

TEST(InlineChoice, MoreRanksTakeLonger) {
  const InlineChoice choice(ServerCosts(), ServerShape());
  for (const Collective collective : AllCollectives()) {
    if (IsPointToPoint(collective)) continue;
    for (const uint64_t bytes : {uint64_t{64}, uint64_t{1} << 16, uint64_t{1} << 26}) {
      for (int ranks = 2; ranks <= 32; ++ranks) {
        const HostOperation fewer{collective, ranks - 1, bytes, true};
        const HostOperation more{collective, ranks, bytes, true};
        EXPECT_GT(choice.OffloadSeconds(more), 0.999 * choice.OffloadSeconds(fewer));
        // Through slots, that is: directly the ranks share the work.
        const HostOperation heap_of_fewer{collective, ranks - 1, bytes, false};
        const HostOperation heap_of_more{collective, ranks, bytes, false};
        EXPECT_GT(choice.InlineSeconds(heap_of_more), 0.999 * choice.InlineSeconds(heap_of_fewer))
            << CollectiveName(collective) << " " << ranks << " " << bytes;
      }
    }
  }
}

TEST(InlineChoice, TheLimitIsWhereOffloadBeginsToWin) {
  const InlineChoice choice(ServerCosts(), ServerShape());
  ForEachKind([&](Collective collective, int ranks, bool registered) {
    const uint64_t limit = choice.Limit(collective, ranks, registered);
    for (uint64_t bytes = InlineChoice::kSmallestBytes; bytes <= limit; bytes *= 2) {
      const HostOperation operation{collective, ranks, bytes, registered};
      EXPECT_LE(choice.InlineSeconds(operation), 1.1 * choice.OffloadSeconds(operation)) << bytes;
    }
    if (limit == InlineChoice::kLargestBytes) return;
    const HostOperation next{collective, ranks, limit * 2, registered};
    EXPECT_GT(choice.InlineSeconds(next), 1.1 * choice.OffloadSeconds(next)) << limit;
  });
}

TEST(InlineChoice, ADearRoundTripRaisesTheLimit) {
  HostCosts costs = ServerCosts();
  uint64_t before = 0;
  for (const double round_trip_ns : {1'000, 10'000, 100'000}) {
    costs.round_trip_ns = round_trip_ns;
    const uint64_t limit =
        InlineChoice(costs, ServerShape()).Limit(Collective::kAllReduce, 4, true);
    EXPECT_GT(limit, before) << round_trip_ns;
    before = limit;
  }
}

TEST(InlineChoice, NeverGoesInlineWhereHandoffsAreSlow) {
  HostCosts costs = ServerCosts();
  costs.handoff_ns = 1e6;
  const InlineChoice choice(costs, ServerShape());
  ForEachKind([&](Collective collective, int ranks, bool registered) {
    // Alone, a rank waits for nobody.
    if (ranks == 1 && !IsPointToPoint(collective)) return;
    EXPECT_EQ(choice.Limit(collective, ranks, registered), 0u);
  });
}

TEST(InlineChoice, RegisteredBuffersNeedNoSlots) {
  const InlineChoice choice(ServerCosts(), ServerShape());
  for (const Collective collective : AllCollectives()) {
    const HostOperation heap{collective, 4, 1 << 20, false};
    const HostOperation registered{collective, 4, 1 << 20, true};
    // The root of a gather copies as much either way, and alone.
    const double slack = collective == Collective::kGather ? 1.05 : 1;
    EXPECT_LT(choice.InlineSeconds(registered), slack * choice.InlineSeconds(heap))
        << CollectiveName(collective);
    // Too small to be worth it.
    EXPECT_EQ(choice.InlineSeconds({collective, 4, 2048, true}),
              choice.InlineSeconds({collective, 4, 2048, false}));
  }
}

TEST(InlineChoice, ManyWorkersBeatFewRanks) {
  HostShape shape = ServerShape();
  EXPECT_LT(InlineChoice(ServerCosts(), shape).Limit(Collective::kAllReduce, 2, true),
            uint64_t{64} << 20);
  // As many workers as ranks: these move a quarter less.
  shape.workers = 2;
  EXPECT_LT(InlineChoice(ServerCosts(), shape).Limit(Collective::kAllReduce, 2, true),
            uint64_t{64} << 20);
  shape.workers = 1;
  EXPECT_EQ(InlineChoice(ServerCosts(), shape).Limit(Collective::kAllReduce, 2, true),
            InlineChoice::kLargestBytes);
}

TEST(InlineChoice, RanksThatShareProcessorsHaveToTakeTurns) {
  const HostOperation operation{Collective::kAllReduce, 8, 1 << 16, false};
  HostShape shape = ServerShape();
  const double roomy = InlineChoice(ServerCosts(), shape).InlineSeconds(operation);
  shape.processors = 2;
  EXPECT_GE(InlineChoice(ServerCosts(), shape).InlineSeconds(operation), 4 * roomy);
}

TEST(InlineChoice, BothHalvesOfAPairHaveTheSameLimit) {
  const InlineChoice choice(ServerCosts(), ServerShape());
  for (const bool registered : {false, true}) {
    EXPECT_EQ(choice.Limit(Collective::kSend, 8, registered),
              choice.Limit(Collective::kReceive, 8, registered));
    EXPECT_EQ(choice.Limit(Collective::kSend, 2, registered),
              choice.Limit(Collective::kSend, 8, registered));
  }
}

}  // namespace
}  // namespace harmonaize
