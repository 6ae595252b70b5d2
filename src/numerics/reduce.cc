#include "src/numerics/reduce.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "src/numerics/highway_config.h"
#include "src/numerics/reduce_kernels.h"
#include "src/numerics/reduce_targets.h"
#include "src/numerics/reduce_wire.h"
// Must follow highway_config.h.
#include <hwy/detect_targets.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace harmonaize {
namespace {

using numerics::ReduceKernel;

/// The kernels of one target. Each function answers only for the types of its family.
struct KernelTable {
  ReduceKernel (*integer)(DataType, ReduceOperator);
  ReduceKernel (*floating)(DataType, ReduceOperator);
  ReduceKernel (*narrow_float)(DataType, ReduceOperator);
  numerics::WireReduceKernel (*wire)(WireFormat, DataType);
};

template <int64_t kTarget>
constexpr KernelTable kKernels = {
    &numerics::IntegerKernel<kTarget>, &numerics::FloatKernel<kTarget>,
    &numerics::NarrowFloatKernel<kTarget>, &numerics::WireKernelOf<kTarget>};

#if HWY_TARGETS & ~HWY_STATIC_TARGET & (HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
// Instructions that Highway lists for a target. Registers count only where the operating system
// saves them, which __builtin_cpu_supports checks; not every compiler's version knows f16c.
[[maybe_unused]] bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
[[maybe_unused]] bool HasSse4() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.2");
}
[[maybe_unused]] bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && HasF16c();
}
[[maybe_unused]] bool HasAvx3() {
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

/// Returns the targets in the order of kTables.
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

ReduceKernel FindKernel(const KernelTable& table, DataType type, ReduceOperator op) {
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

/// The kernels of one target by type and operator, so that a small reduction finds its own by one
/// load.
struct KernelList {
  const KernelTable* table;
  std::array<std::array<ReduceKernel, kReduceOperatorCount>, kDataTypeCount> kernels;
};

KernelList ListKernels(const KernelTable* table) {
  KernelList list{table, {}};
  for (size_t type = 0; type < kDataTypeCount; ++type) {
    for (size_t op = 0; op < kReduceOperatorCount; ++op) {
      list.kernels[type][op] =
          FindKernel(*table, static_cast<DataType>(type), static_cast<ReduceOperator>(op));
    }
  }
  return list;
}

/// Returns the kernels of a target, numbered in the order of kTables.
const KernelList& KernelsOf(size_t target) {
  static const auto lists = [] {
    std::array<KernelList, kTables.size()> made;
    for (size_t i = 0; i < made.size(); ++i) made[i] = ListKernels(kTables[i]);
    return made;
  }();
  return lists[target];
}

/// The kernels in use. Release and acquire: a thread that sees the list sees its content. Threads
/// that race to choose for the first time choose the same.
std::atomic<const KernelList*> current_kernels = nullptr;

const KernelList& ChooseKernels() {
  const KernelList& best = KernelsOf(BestTarget());
  current_kernels.store(&best, std::memory_order_release);
  return best;
}

const KernelList& CurrentKernels() {
  const KernelList* const kernels = current_kernels.load(std::memory_order_acquire);
  return kernels != nullptr ? *kernels : ChooseKernels();
}

/// Bytes that a first-level cache holds while one destination after the other is served from it.
constexpr size_t kCopyPieceBytes = size_t{32} * 1024;

/// Copies to destinations. The C library's copy uses the processor's fastest way of writing whole
/// lines, which beats our vectors if the source can be read again from the first-level cache. Only
/// past the caches does it pay to read the source once and write everything at once: as the sum of
/// one input.
void CopyBatch(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes,
               bool non_temporal) {
  if (non_temporal && destinations.size() > 1) {
    Reduce({.type = DataType::kUint8,
            .inputs = {&source, 1},
            .outputs = destinations,
            .count = bytes,
            .non_temporal = true});
    return;
  }
  for (size_t begin = 0; begin < bytes; begin += kCopyPieceBytes) {
    const size_t piece = std::min(kCopyPieceBytes, bytes - begin);
    for (std::byte* const destination : destinations) {
      // Not memcpy, because a tenant decides whether buffers overlap.
      std::memmove(destination + begin, source + begin, piece);
    }
  }
}

}  // namespace

void Reduce(const ReduceArguments& arguments) {
  CurrentKernels().kernels[static_cast<size_t>(arguments.type)][static_cast<size_t>(arguments.op)](
      arguments);
}

void ReduceWire(const WireReduceArguments& arguments) {
  CurrentKernels().table->wire(arguments.format, arguments.type)(arguments);
}

void CopyToMany(const std::byte* source, std::span<std::byte* const> destinations, size_t bytes,
                bool non_temporal) {
  // Destinations go in batches that a list on the stack can hold.
  std::array<std::byte*, 64> batch;
  size_t batched = 0;
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (destinations[i] != source) batch[batched++] = destinations[i];
    const bool last = i + 1 == destinations.size();
    if (batched == batch.size() || (last && batched > 0)) {
      CopyBatch(source, {batch.data(), batched}, bytes, non_temporal);
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
    current_kernels.store(&KernelsOf(i), std::memory_order_release);
    return true;
  }
  return false;
}

std::string_view CurrentReduceTarget() {
  const KernelTable* const table = CurrentKernels().table;
  size_t index = 0;
  while (kTables[index] != table) ++index;
  return Targets()[index].name;
}

}  // namespace harmonaize
