#pragma once

#include <cstddef>

namespace harmonaize::perf {

/// outs[m][i] = sum over n of ins[n][i], for i in [0, count), for all m at once: each input is read
/// and each output written exactly once. With one input it is a copy to many places. `streaming`
/// writes past the caches, where an output's address allows it.
///
/// Outputs may be inputs at the same place; other overlaps are not allowed.
using SumKernel = void (*)(float* const* outs, int out_count, const float* const* ins, int in_count,
                           size_t count, bool streaming);

/// The sum kernels, compiled for different vector units.
void SumBaseline(float* const* outs, int out_count, const float* const* ins, int in_count,
                 size_t count, bool streaming);
#if defined(HARMONAIZE_BOUND_X86)
void SumAvx2(float* const* outs, int out_count, const float* const* ins, int in_count, size_t count,
             bool streaming);
void SumAvx512(float* const* outs, int out_count, const float* const* ins, int in_count,
               size_t count, bool streaming);
#endif

/// Returns the widest that this machine has.
SumKernel BestSumKernel();

}  // namespace harmonaize::perf
