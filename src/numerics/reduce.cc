#include "src/numerics/reduce.h"

#include <array>
#include <atomic>

#include "src/numerics/highway_config.h"
#include "src/numerics/reduce_kernels.h"
#include "src/numerics/reduce_targets.h"
// Must follow highway_config.h.
#include <hwy/detect_targets.h>

namespace harmonaize {
namespace {

using numerics::ReduceKernel;

/// The kernels of one target; the functions answer for the types of their family alone.
struct KernelTable {
  ReduceKernel (*integer)(DataType, ReduceOperator);
  ReduceKernel (*floating)(DataType, ReduceOperator);
  ReduceKernel (*narrow_float)(DataType, ReduceOperator);
};

template <int64_t kTarget>
constexpr KernelTable kKernels = {&numerics::IntegerKernel<kTarget>,
                                  &numerics::FloatKernel<kTarget>,
                                  &numerics::NarrowFloatKernel<kTarget>};

#if HWY_TARGETS & ~HWY_STATIC_TARGET & (HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
// What Highway's list of a target's instructions names; the processor's word counts only where the
// operating system saves the registers, which __builtin_cpu_supports looks after.
bool HasSse4() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2");
}
bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("f16c");
}
bool HasAvx3() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

constexpr std::array kTables = {
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX3
    &kKernels<HWY_AVX3>,
#endif
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX2
    &kKernels<HWY_AVX2>,
#endif
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_SSE4
    &kKernels<HWY_SSE4>,
#endif
    &kKernels<HWY_STATIC_TARGET>,
};

/// In the order of kTables.
const std::array<ReduceTarget, kTables.size()>& Targets() {
  static const std::array<ReduceTarget, kTables.size()> targets = {{
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX3
      {"avx3", HasAvx3()},
#endif
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_AVX2
      {"avx2", HasAvx2()},
#endif
#if HWY_TARGETS & ~HWY_STATIC_TARGET & HWY_SSE4
      {"sse4", HasSse4()},
#endif
      {"baseline", true},
  }};
  return targets;
}

size_t BestTarget() {
  size_t index = 0;
  while (!Targets()[index].supported) ++index;
  return index;
}

/// The table in use. Relaxed order is enough: the tables are constants, so whoever sees a pointer
/// sees what it points at, and threads that race to choose for the first time choose the same.
std::atomic<const KernelTable*> current_table = nullptr;

const KernelTable& CurrentTable() {
  const KernelTable* table = current_table.load(std::memory_order_relaxed);
  if (table == nullptr) {
    table = kTables[BestTarget()];
    current_table.store(table, std::memory_order_relaxed);
  }
  return *table;
}

ReduceKernel FindKernel(DataType type, ReduceOperator op) {
  const KernelTable& table = CurrentTable();
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64: return table.floating(type, op);
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2: return table.narrow_float(type, op);
    default: return table.integer(type, op);
  }
}

}  // namespace

void Reduce(const ReduceArguments& arguments) {
  FindKernel(arguments.type, arguments.op)(arguments);
}

void CopyToMany(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes,
                bool non_temporal) {
  // The sum of one input is a copy. Destinations go in batches that a list on the stack can hold.
  const ReduceKernel copy = FindKernel(DataType::kUint8, ReduceOperator::kSum);
  std::array<std::byte*, 64> batch;
  size_t batched = 0;
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (destinations[i] != source) batch[batched++] = destinations[i];
    const bool last = i + 1 == destinations.size();
    if (batched == batch.size() || (last && batched > 0)) {
      copy({.type = DataType::kUint8,
            .inputs = {&source, 1},
            .outputs = {batch.data(), batched},
            .count = bytes,
            .non_temporal = non_temporal});
      batched = 0;
    }
  }
}

std::span<const ReduceTarget> ReduceTargets() {
  return Targets();
}

bool ForceReduceTarget(std::string_view name) {
  for (size_t i = 0; i < kTables.size(); ++i) {
    const bool chosen = name.empty() ? i == BestTarget() : Targets()[i].name == name;
    if (!chosen || !Targets()[i].supported) continue;
    current_table.store(kTables[i], std::memory_order_relaxed);
    return true;
  }
  return false;
}

std::string_view CurrentReduceTarget() {
  const KernelTable* const table = &CurrentTable();
  size_t index = 0;
  while (kTables[index] != table) ++index;
  return Targets()[index].name;
}

}  // namespace harmonaize
