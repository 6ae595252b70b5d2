#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "daemon/plans/plan_switch.h"
#include "tests/unit/daemon/nccl_tuning/tuned_ranks.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::microseconds;

/// Time for which ranks call while tables change.
constexpr std::chrono::milliseconds kForAWhile{1500};
/// Most calls that a rank makes.
constexpr size_t kMostCalls = 4'000'000;

/// What a rank's calls went by, by their number.
using Marks = std::vector<float>;

/// Calls at an uneven pace until `done`.
Marks CallUntil(const std::atomic<bool>& done, TuningReader* reader, unsigned seed) {
  std::mt19937 random(seed);
  Marks marks;
  while (!done.load(std::memory_order_relaxed) && marks.size() < kMostCalls) {
    const auto bytes = marks.size() % 7 * 1000;
    marks.push_back(MarkOf(reader->Next(kNcclAllReduce, bytes, Lives)));
    if (random() % 64 == 0) std::this_thread::sleep_for(microseconds(random() % 200));
  }
  return marks;
}

/// Changes tables by the protocol of plan_switch.h, with delays, refusals and hosts that are told
/// late.
class Rounds {
 public:
  Rounds(std::vector<TunedHost>* hosts, unsigned seed)
      : hosts_(*hosts), leader_(static_cast<int>(hosts->size())), random_(seed) {}

  /// Returns whether the table has changed.
  bool Run(double mark) {
    const uint64_t round = leader_.Begin();
    std::optional<SwitchLeader::Settlement> settlement;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      Dawdle();
      const TuningPromiseMessage promise =
          hosts_[host].communicator->Promise(ProposalOf(round, mark));
      const auto settled = promise.status.ok() ? leader_.OnPromise(static_cast<int>(host),
                                                                   promise.round, promise.from)
                                               : leader_.OnRefusal(promise.round);
      if (settled.has_value()) settlement = settled;
      if (random_() % 16 == 0 && leader_.under_way()) settlement = leader_.CallOff();
    }
    const bool commit = settlement->from.has_value();
    for (TunedHost& host : hosts_) {
      Dawdle();
      host.communicator->Settle({kTunedKey.user, kTunedKey.communicator, settlement->round, commit,
                                 settlement->from.value_or(0)});
    }
    return commit;
  }

 private:
  void Dawdle() {
    for (TunedHost& host : hosts_) host.communicator->WentOn(++now_ns_ * 1'000'000);
    if (random_() % 2 == 0) std::this_thread::sleep_for(microseconds(random_() % 1500));
  }

  std::vector<TunedHost>& hosts_;
  SwitchLeader leader_;
  std::mt19937 random_;
  uint64_t now_ns_ = 0;
};

TEST(TuningThreads, AllRanksOfAllHostsChangeAtTheSameCall) {
  std::vector<TunedHost> hosts;
  hosts.emplace_back(2, 3);
  hosts.emplace_back(1, 3);
  std::atomic<bool> done{false};
  std::vector<Marks> marks(3);
  std::vector<std::thread> ranks;
  for (TunedHost& host : hosts) {
    for (const auto& reader : host.readers) {
      const size_t rank = ranks.size();
      ranks.emplace_back([&marks, &done, rank, one = reader.get()] {
        marks[rank] = CallUntil(done, one, static_cast<unsigned>(rank));
      });
    }
  }
  Rounds rounds(&hosts, 17);
  int changes = 0;
  const auto end = std::chrono::steady_clock::now() + kForAWhile;
  for (int round = 1; std::chrono::steady_clock::now() < end; ++round) {
    if (rounds.Run(1 + 0.01 * (round % 1000))) ++changes;
  }
  done = true;
  for (std::thread& rank : ranks) rank.join();

  EXPECT_GE(changes, 3);
  const size_t calls = std::min({marks[0].size(), marks[1].size(), marks[2].size()});
  size_t differ = 0;
  size_t seen_changes = 0;
  for (size_t call = 0; call < calls; ++call) {
    if (marks[1][call] != marks[0][call] || marks[2][call] != marks[0][call]) ++differ;
    if (call > 0 && marks[0][call] != marks[0][call - 1]) ++seen_changes;
  }
  EXPECT_EQ(differ, 0u) << "of " << calls << " calls";
  EXPECT_GE(seen_changes, 2u);
}

}  // namespace
}  // namespace harmonaize::daemon
