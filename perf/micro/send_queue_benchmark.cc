// Measures what a message costs in the queue of a connection, from Push to Charge, while many jobs
// of another tenant wait there.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "src/transport/queue/send_queue.h"

namespace harmonaize::transport {
namespace {

constexpr size_t kMessageBytes = size_t{16} << 10;
/// Bytes that a cap of 100 kB/s takes months for.
constexpr size_t kForMonths = size_t{1} << 40;
constexpr uint32_t kCrowd = 1;
constexpr uint32_t kStranger = 2;

class Writer final : public Poller::Handler {
 public:
  void OnReady(uint32_t /*events*/) override {}
};

/// A queue on which `jobs` jobs of the tenant kCrowd wait, with messages that never end.
class Crowd {
 public:
  /// Each job has an owner of its own, or all have one.
  Crowd(int64_t jobs, bool own_owner, float cap, float tenant_cap)
      : poller_(Poller::Create().value()), rates_(poller_.get()) {
    queue.SetRates(&rates_, &writer_);
    queue.SetRate(1e9);
    for (int64_t job = 1; job <= jobs; ++job) {
      Request* send = &requests_.emplace_back();
      const auto number = static_cast<uint64_t>(job);
      send->share = {.tenant = kCrowd, .job = number, .owner = own_owner ? number : 1};
      send->share.cap = cap;
      send->share.tenant_cap = tenant_cap;
      send->tag.operation = number;
      send->size = size_t{1} << 40;
      // Far from each other and from the stranger.
      send->left = (uint64_t{1} << 30) + number * (uint64_t{1} << 20);
      queue.PushBulk(send);
    }
    // What is owed to a cap keeps the crowd back for as long as anything is measured.
    for (const Request& send : requests_) {
      if (cap > 0) rates_.Of(kCrowd, send.share.owner)->Charge(kForMonths);
    }
    if (tenant_cap > 0) rates_.OfTenant(kCrowd)->Charge(kForMonths);
  }

  /// Sends a message, and puts back what is left of it. Returns whether there was one.
  bool Turn() {
    const SendQueue::Turn turn = queue.Next();
    if (turn.send == nullptr) return false;
    queue.Charge(*turn.send, kMessageBytes);
    if (turn.bulk) queue.ReturnBulk(turn.send);
    return true;
  }

  SendQueue queue;

 private:
  std::unique_ptr<Poller> poller_;
  OwnerRates rates_;
  Writer writer_;
  std::deque<Request> requests_;
};

void SendStrangers(benchmark::State& state, Crowd* crowd) {
  Request send;
  send.share = {.tenant = kStranger, .job = 1, .owner = 1};
  send.size = kMessageBytes;
  send.left = kMessageBytes;
  for (auto _ : state) {
    crowd->queue.Push(&send);
    // A message of the crowd may come between.
    while (send.linked() && crowd->Turn()) {
    }
  }
}

/// The crowd's jobs may send, but have far more left than the stranger.
void BM_BesideReadyJobs(benchmark::State& state) {
  Crowd crowd(state.range(0), true, 0, 0);
  SendStrangers(state, &crowd);
}

/// Each of the crowd's jobs has an owner of its own that has reached its cap.
void BM_BesideCappedOwners(benchmark::State& state) {
  Crowd crowd(state.range(0), true, 1e5F, 0);
  SendStrangers(state, &crowd);
}

/// The crowd's jobs have one owner that has reached its cap.
void BM_BesideCappedOwner(benchmark::State& state) {
  Crowd crowd(state.range(0), false, 1e5F, 0);
  SendStrangers(state, &crowd);
}

/// The crowd has reached the cap of its tenant.
void BM_BesideCappedTenant(benchmark::State& state) {
  Crowd crowd(state.range(0), true, 0, 1e5F);
  SendStrangers(state, &crowd);
}

/// Turns of the crowd's own jobs.
void BM_TurnsOfJobs(benchmark::State& state) {
  Crowd crowd(state.range(0), true, 0, 0);
  for (auto _ : state) crowd.Turn();
}

BENCHMARK(BM_BesideReadyJobs)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK(BM_BesideCappedOwners)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK(BM_BesideCappedOwner)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK(BM_BesideCappedTenant)->RangeMultiplier(10)->Range(1, 10'000);
BENCHMARK(BM_TurnsOfJobs)->RangeMultiplier(10)->Range(1, 10'000);

}  // namespace
}  // namespace harmonaize::transport

BENCHMARK_MAIN();
