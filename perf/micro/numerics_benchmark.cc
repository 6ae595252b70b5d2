// Measures one core's speed of the reductions and copies, beside a plain loop that the compiler
// vectorises for this machine. "algbw" is the bytes of one buffer by the time; n inputs and m
// outputs move (n + m) times as many.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/numerics/reduce.h"
#include "src/numerics/reduce_targets.h"

namespace harmonaize {
namespace {

constexpr size_t kPage = 4096;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// `count` buffers of `bytes` bytes, each beginning on a page plus a few cache lines, so that they
/// do not all compete for the same sets of the caches.
class Buffers {
 public:
  Buffers(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; ++i) {
      const size_t shift = i % 8 * 3 * 64;
      const size_t size = (bytes + shift + kPage - 1) / kPage * kPage;
      memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
      std::memset(memory_.back().get(), 0, size);
      pointers_.push_back(memory_.back().get() + shift);
    }
  }
  const std::vector<std::byte*>& pointers() const { return pointers_; }
  std::vector<const std::byte*> const_pointers() const {
    return {pointers_.begin(), pointers_.end()};
  }

 private:
  std::vector<std::unique_ptr<std::byte, FreeMemory>> memory_;
  std::vector<std::byte*> pointers_;
};

void Report(benchmark::State& state, size_t bytes) {
  state.counters["algbw"] =
      benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate);
}

/// Arguments: inputs, outputs, bytes, non-temporal.
void BM_Reduce(benchmark::State& state, DataType type, ReduceOperator op, std::string target) {
  if (!ForceReduceTarget(target)) {
    state.SkipWithError("this processor lacks the target");
    return;
  }
  const auto inputs = static_cast<size_t>(state.range(0));
  const auto outputs = static_cast<size_t>(state.range(1));
  const auto bytes = static_cast<size_t>(state.range(2));
  const Buffers from(inputs, bytes);
  const Buffers to(outputs, bytes);
  const std::vector<const std::byte*> sources = from.const_pointers();
  const std::vector<uint64_t> scalars(inputs, 0);
  ReduceArguments arguments{.type = type,
                            .op = op,
                            .inputs = sources,
                            .outputs = to.pointers(),
                            .count = bytes / DataTypeSize(type),
                            .scalars = scalars,
                            .divisor = inputs,
                            .non_temporal = state.range(3) != 0};
  for (auto _ : state) {
    Reduce(arguments);
    benchmark::ClobberMemory();
  }
  Report(state, bytes);
  ForceReduceTarget("");
}

/// The sum as one would write it without thinking: two inputs, two outputs.
[[gnu::noinline]] void PlainSum(const float* __restrict a, const float* __restrict b,
                                float* __restrict x, float* __restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) x[i] = y[i] = a[i] + b[i];
}

void BM_PlainLoop(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Buffers buffers(4, bytes);
  const auto floats = [&](size_t i) { return reinterpret_cast<float*>(buffers.pointers()[i]); };
  for (auto _ : state) {
    PlainSum(floats(0), floats(1), floats(2), floats(3), bytes / sizeof(float));
    benchmark::ClobberMemory();
  }
  Report(state, bytes);
}

/// Arguments: destinations, bytes, non-temporal.
void BM_CopyToMany(benchmark::State& state) {
  const auto destinations = static_cast<size_t>(state.range(0));
  const auto bytes = static_cast<size_t>(state.range(1));
  const Buffers from(1, bytes);
  const Buffers to(destinations, bytes);
  for (auto _ : state) {
    CopyToMany(from.pointers()[0], to.pointers(), bytes, state.range(2) != 0);
    benchmark::ClobberMemory();
  }
  Report(state, bytes);
}

void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Buffers buffers(2, bytes);
  for (auto _ : state) {
    std::memcpy(buffers.pointers()[1], buffers.pointers()[0], bytes);
    benchmark::ClobberMemory();
  }
  Report(state, bytes);
}

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kSizes[] = {4 * kKiB, 32 * kKiB, 256 * kKiB, 8 * kMiB, 128 * kMiB};

void RegisterFloat32Sum() {
  for (const int64_t bytes : kSizes) {
    benchmark::RegisterBenchmark("plain_loop/2to2", BM_PlainLoop)->Arg(bytes);
    for (const ReduceTarget& target : ReduceTargets()) {
      const std::string name = "float32/sum/" + std::string(target.name);
      auto* const sum =
          benchmark::RegisterBenchmark(name.c_str(), BM_Reduce, DataType::kFloat32,
                                       ReduceOperator::kSum, std::string(target.name));
      sum->Args({2, 2, bytes, 0});
      if (bytes >= 8 * kMiB) sum->Args({2, 2, bytes, 1});
    }
  }
  auto* const many = benchmark::RegisterBenchmark("float32/sum", BM_Reduce, DataType::kFloat32,
                                                  ReduceOperator::kSum, std::string());
  for (const int64_t n : {1, 3, 4, 8, 16, 17, 64, 1024}) {
    many->Args({n, 1, 256 * kKiB, 0});
    if (n > 1 && n <= 16) many->Args({n, n, 256 * kKiB, 0});
  }
}

void RegisterTypes() {
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int op = 0; op < kReduceOperatorCount; ++op) {
      const auto data_type = static_cast<DataType>(type);
      const auto reduce_operator = static_cast<ReduceOperator>(op);
      const std::string name = std::string(DataTypeName(data_type)) + "/" +
                               std::string(ReduceOperatorName(reduce_operator));
      benchmark::RegisterBenchmark(name.c_str(), BM_Reduce, data_type, reduce_operator,
                                   std::string())
          ->Args({2, 2, 256 * kKiB, 0});
    }
  }
}

void RegisterCopies() {
  for (const int64_t bytes : kSizes) {
    benchmark::RegisterBenchmark("memcpy", BM_Memcpy)->Arg(bytes);
    auto* const copy = benchmark::RegisterBenchmark("copy", BM_CopyToMany);
    for (const int64_t destinations : {1, 2, 4}) {
      copy->Args({destinations, bytes, 0});
      if (bytes >= 8 * kMiB) copy->Args({destinations, bytes, 1});
    }
  }
}

}  // namespace
}  // namespace harmonaize

int main(int argc, char** argv) {
  harmonaize::RegisterFloat32Sum();
  harmonaize::RegisterTypes();
  harmonaize::RegisterCopies();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
