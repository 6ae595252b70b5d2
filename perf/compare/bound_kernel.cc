// Compiled once for each vector unit, with HARMONAIZE_BOUND_KERNEL the name of the function.

#include "perf/compare/bound_kernel.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace harmonaize::perf {
namespace {

#if defined(__AVX512F__)
using Vector = __m512;
inline Vector Load(const float* from) {
  return _mm512_loadu_ps(from);
}
inline void Store(float* to, Vector v) {
  _mm512_storeu_ps(to, v);
}
inline void Stream(float* to, Vector v) {
  _mm512_stream_ps(to, v);
}
inline Vector Add(Vector a, Vector b) {
  return _mm512_add_ps(a, b);
}
#elif defined(__AVX__)
using Vector = __m256;
inline Vector Load(const float* from) {
  return _mm256_loadu_ps(from);
}
inline void Store(float* to, Vector v) {
  _mm256_storeu_ps(to, v);
}
inline void Stream(float* to, Vector v) {
  _mm256_stream_ps(to, v);
}
inline Vector Add(Vector a, Vector b) {
  return _mm256_add_ps(a, b);
}
#elif defined(__SSE2__)
using Vector = __m128;
inline Vector Load(const float* from) {
  return _mm_loadu_ps(from);
}
inline void Store(float* to, Vector v) {
  _mm_storeu_ps(to, v);
}
inline void Stream(float* to, Vector v) {
  _mm_stream_ps(to, v);
}
inline Vector Add(Vector a, Vector b) {
  return _mm_add_ps(a, b);
}
#else
// Other machines use the compiler's own vectors; it knows no store past the caches there.
using Vector = float __attribute__((vector_size(16)));
inline Vector Load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
inline void Store(float* to, Vector v) {
  std::memcpy(to, &v, sizeof(v));
}
inline void Stream(float* to, Vector v) {
  Store(to, v);
}
inline Vector Add(Vector a, Vector b) {
  return a + b;
}
#endif

constexpr size_t kLanes = sizeof(Vector) / sizeof(float);
// Vectors summed at once: enough to hide the latency of loads and to fill whole cache lines, and
// few enough to stay in registers.
constexpr size_t kUnroll = 4;
// Elements summed at once.
constexpr size_t kStep = kLanes * kUnroll;

template <bool kStreaming>
size_t SumSteps(float* const* outs, int out_count, const float* const* ins, int in_count,
                size_t count) {
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    Vector sums[kUnroll];
    for (size_t u = 0; u < kUnroll; ++u) sums[u] = Load(ins[0] + i + u * kLanes);
    for (int n = 1; n < in_count; ++n) {
      for (size_t u = 0; u < kUnroll; ++u) {
        sums[u] = Add(sums[u], Load(ins[n] + i + u * kLanes));
      }
    }
    for (int m = 0; m < out_count; ++m) {
      for (size_t u = 0; u < kUnroll; ++u) {
        if constexpr (kStreaming) {
          Stream(outs[m] + i + u * kLanes, sums[u]);
        } else {
          Store(outs[m] + i + u * kLanes, sums[u]);
        }
      }
    }
  }
  return i;
}

bool AllAligned(float* const* outs, int out_count) {
  for (int m = 0; m < out_count; ++m) {
    if (reinterpret_cast<uintptr_t>(outs[m]) % sizeof(Vector) != 0) return false;
  }
  return true;
}

}  // namespace

void HARMONAIZE_BOUND_KERNEL(float* const* outs, int out_count, const float* const* ins,
                             int in_count, size_t count, bool streaming) {
  const bool stream = streaming && AllAligned(outs, out_count);
  size_t i = stream ? SumSteps<true>(outs, out_count, ins, in_count, count)
                    : SumSteps<false>(outs, out_count, ins, in_count, count);
  for (; i < count; ++i) {
    float sum = ins[0][i];
    for (int n = 1; n < in_count; ++n) sum += ins[n][i];
    for (int m = 0; m < out_count; ++m) outs[m][i] = sum;
  }
#if defined(__SSE2__)
  // Streaming stores are not ordered with the flag that tells the others, so a fence is needed.
  if (stream) _mm_sfence();
#endif
}

}  // namespace harmonaize::perf
