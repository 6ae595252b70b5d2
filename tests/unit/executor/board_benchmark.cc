// Measures what the executor costs beside the work itself: one unit's way over the work board, and
// one operation's way through an executor whose owner does everything.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "src/executor/host/executor.h"
#include "src/executor/host/work_board.h"
#include "src/schedule/algorithms/one_host.h"

namespace harmonaize {
namespace {

constexpr uint64_t kEverySlot = ~uint64_t{0};
constexpr Machine kTwoWorkers{.workers = 2, .cache_bytes = 1 << 20, .last_level_bytes = 32 << 20};

/// Binds a broadcast of `bytes` bytes to memory that lies wherever `memory` does.
void BindBroadcast(std::byte* memory, uint64_t bytes, const Machine& machine, int most_workers,
                   Execution* execution) {
  static const Schedule kSchedule = OneHost(Collective::kBroadcast, 2, 0, false);
  const std::array<MemoryView, 2> buffers = {MemoryView{memory}, MemoryView{memory}};
  Binding binding;
  binding.program = &kSchedule.programs[0];
  binding.type = DataType::kUint8;
  binding.count = bytes;
  binding.inputs = buffers;
  binding.outputs = buffers;
  binding.helpable = true;
  binding.most_workers = most_workers;
  if (!execution->Bind(binding, machine).ok()) std::abort();
}

/// Posts an execution, takes all its units and retires it. Nobody runs them. Arguments: MiB, and
/// the bound on the threads of its job.
void UnitsOverTheBoard(benchmark::State& state) {
  WorkBoard board;
  std::byte memory{};
  Execution execution;
  BindBroadcast(&memory, static_cast<uint64_t>(state.range(0)) << 20, kTwoWorkers,
                static_cast<int>(state.range(1)), &execution);
  WorkBoard::Cursor cursor;
  for (auto _ : state) {
    if (!board.Post(&execution)) std::abort();
    while (std::optional<WorkBoard::Unit> unit = board.Take(kEverySlot, cursor)) {
      benchmark::DoNotOptimize(unit);
      board.GivePermitBack(*unit);
    }
    board.Retire(&execution);
  }
  state.SetItemsProcessed(state.iterations() * execution.units());
}
BENCHMARK(UnitsOverTheBoard)
    ->Args({1, 0})
    ->Args({512, 0})
    ->Args({512, 1})
    ->Args({512, 2})
    ->MinTime(0.2);

/// Starts an operation of a few bytes, does it and takes it back, all in the owner's thread.
void OperationsOfTheOwner(benchmark::State& state) {
  Result<std::unique_ptr<Executor>> executor = Executor::Create({.workers = 1});
  if (!executor.ok()) std::abort();
  std::array<std::byte, 64> memory{};
  Execution execution;
  BindBroadcast(memory.data(), memory.size(), (*executor)->machine(), 0, &execution);
  for (auto _ : state) {
    (*executor)->Start(&execution);
    while ((*executor)->Help()) {
    }
    if ((*executor)->TakeFinished() != &execution) std::abort();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(OperationsOfTheOwner)->MinTime(0.2);

}  // namespace
}  // namespace harmonaize

BENCHMARK_MAIN();
