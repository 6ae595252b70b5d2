#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/harness/pattern.h"

namespace harmonaize::perf {

/// A run of elements in a rank's output, and the source of their values.
struct Segment {
  enum class Source {
    kInput,      ///< rank `source_rank`'s input, from element `source_first` on
    kReduced,    ///< the reduction of all inputs, from element `source_first` on
    kUntouched,  ///< nothing: the collective must not write here
  };
  Source source;
  size_t output_first;  ///< in elements
  size_t count;         ///< in elements
  int source_rank = 0;
  size_t source_first = 0;
};

/// Result of a comparison.
struct Mismatches {
  uint64_t count = 0;  ///< Wrong elements, or damaged bytes.
  std::string first;   ///< Description of the first mismatch; "" when there is none.
  void Add(const Mismatches& other);
};

/// Byte that fills output buffers before a checked run.
inline constexpr std::byte kPoison{0xA5};

/// Compares every element of the segments with the pattern. `output` is the rank's output;
/// kUntouched segments must still be full of kPoison.
Mismatches CompareOutput(Pattern& pattern, const std::vector<Segment>& segments,
                         const std::byte* output);

/// Compares `count` elements at `data` with rank `rank`'s input, from element 0 on: a collective
/// must not change its send buffer.
Mismatches CompareInput(Pattern& pattern, int rank, size_t count, const std::byte* data);

}  // namespace harmonaize::perf
