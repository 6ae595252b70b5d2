// Prints the algorithm bandwidth of a two-rank float32 all-reduce by two workers while the owner
// sleeps, beside the machine's own bound. Arguments: rounds (default 5).

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/memory/shared_memory.h"
#include "src/numerics/reduce.h"
#include "src/schedule/algorithms/one_host.h"
#include "tests/unit/executor/testing.h"

namespace harmonaize {
namespace {

constexpr size_t kLargest = size_t{128} << 20;

struct Buffers {
  std::vector<MemoryView> inputs;
  std::vector<MemoryView> outputs;
};

double BestSeconds(TestExecutor& executor, const Schedule& schedule, const Buffers& buffers,
                   size_t bytes, int rounds, bool help) {
  Execution execution;
  Binding binding;
  binding.program = &schedule.programs[0];
  binding.type = DataType::kFloat32;
  binding.count = bytes / sizeof(float);
  binding.inputs = buffers.inputs;
  binding.outputs = buffers.outputs;
  binding.helpable = help;
  // nccl-tests' way: the average of many, here the best of such averages.
  const auto iterations = static_cast<int>(std::clamp<size_t>((size_t{64} << 20) / bytes, 2, 2000));
  double best = 1e9;
  for (int round = 0; round < rounds + 1; ++round) {
    const uint64_t start = MonotonicNanoseconds();
    for (int i = 0; i < iterations; ++i) {
      if (!execution.Bind(binding, executor->machine()).ok()) std::abort();
      executor->Start(&execution);
      if (help) {
        while (executor->Help()) {
        }
      }
      if (!executor.Wait()->status().ok()) std::abort();
    }
    const double seconds = static_cast<double>(MonotonicNanoseconds() - start) * 1e-9 / iterations;
    if (round > 0) best = std::min(best, seconds);  // The first one faults pages in.
  }
  return best;
}

// The machine's own bound: two threads that know beforehand which half is theirs, and do to it what
// the executor's units do, without an executor.
class Bound {
 public:
  Bound(const Buffers& buffers, size_t bytes) : buffers_(buffers), bytes_(bytes) {}

  double BestSeconds(int rounds) {
    const auto iterations =
        static_cast<int>(std::clamp<size_t>((size_t{64} << 20) / bytes_, 2, 2000));
    double best = 1e9;
    for (int round = 0; round < rounds + 1; ++round) {
      const uint64_t start = MonotonicNanoseconds();
      arrived_.store(0);
      std::thread other([&] { Work(1, iterations); });
      Work(0, iterations);
      other.join();
      const double seconds =
          static_cast<double>(MonotonicNanoseconds() - start) * 1e-9 / iterations;
      if (round > 0) best = std::min(best, seconds);
    }
    return best;
  }

 private:
  void Work(int half, int iterations) {
    for (int i = 0; i < iterations; ++i) {
      for (size_t at = 0; at < bytes_ / 2; at += kPiece) {
        Piece(static_cast<size_t>(half) * (bytes_ / 2) + at, std::min(kPiece, bytes_ / 2 - at));
      }
      // Both have done before either goes on.
      arrived_.fetch_add(1);
      for (int spins = 0; arrived_.load() < 2 * (i + 1); ++spins) {
        if (spins > 10'000) std::this_thread::yield();
      }
    }
  }

  void Piece(size_t offset, size_t bytes) {
    const std::array<const std::byte*, 2> inputs = {buffers_.inputs[0].address + offset,
                                                    buffers_.inputs[1].address + offset};
    const std::array<std::byte*, 2> outputs = {buffers_.outputs[0].address + offset,
                                               buffers_.outputs[1].address + offset};
    Reduce({.type = DataType::kFloat32,
            .op = ReduceOperator::kSum,
            .inputs = inputs,
            .outputs = outputs,
            .count = bytes / sizeof(float),
            .scalars = {},
            .divisor = 1,
            .non_temporal = 2 * bytes_ > (size_t{32} << 20)});
  }

  static constexpr size_t kPiece = size_t{256} << 10;
  const Buffers& buffers_;
  const size_t bytes_;
  std::atomic<int> arrived_{0};
};

void Print(double seconds, size_t bytes) {
  std::printf(" %9.1f us %4.1f GB/s", seconds * 1e6, static_cast<double>(bytes) / seconds * 1e-9);
  std::fflush(stdout);
}

void Run(int rounds) {
  const Schedule schedule = OneHost(Collective::kAllReduce, 2, 0, false);
  std::vector<SharedMemory> shared;
  Buffers mapped;
  for (int rank = 0; rank < 4; ++rank) {
    Result<SharedMemory> memory = CreateSharedMemory("benchmark", kLargest);
    if (!memory.ok()) std::abort();
    MemoryView buffer;
    buffer.address = memory->mapping.data();
    (rank < 2 ? mapped.inputs : mapped.outputs).push_back(buffer);
    shared.push_back(std::move(*memory));
  }
  TestExecutor executor(2);
  std::printf("%12s %22s %22s %22s\n", "bytes", "bound", "executor", "owner helps");
  for (size_t bytes : {size_t{64} << 10, size_t{512} << 10, size_t{1} << 20, size_t{2} << 20,
                       size_t{8} << 20, size_t{32} << 20, kLargest}) {
    std::printf("%12zu", bytes);
    Print(Bound(mapped, bytes).BestSeconds(rounds), bytes);
    Print(BestSeconds(executor, schedule, mapped, bytes, rounds, false), bytes);
    Print(BestSeconds(executor, schedule, mapped, bytes, rounds, true), bytes);
    // From what single units took: what the above would be on a machine without other programs.
    std::printf("   units alone: %.1f GB/s\n", static_cast<double>(bytes) * 1e-9 /
                                                   executor->EstimateSeconds(2 * bytes, 2 * bytes));
  }
}

}  // namespace
}  // namespace harmonaize

int main(int argc, char** argv) {
  harmonaize::Run(argc > 1 ? std::atoi(argv[1]) : 5);
  return 0;
}
