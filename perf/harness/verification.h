#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/harness/pattern.h"

namespace harmonaize::perf {

/// A run of elements in a rank's output, and where their values come from.
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

/// What a comparison found.
struct Mismatches {
  uint64_t count = 0;  ///< Wrong elements, or damaged bytes.
  std::string first;   ///< The first of them in words; "" when there is none.
  void Add(const Mismatches& other);
};

/// The byte that output buffers are filled with before a checked run.
inline constexpr std::byte kPoison{0xA5};

/// Compares every element of the segments with what the pattern says. `output` is the rank's
/// output; kUntouched segments must still be full of kPoison.
Mismatches CompareOutput(Pattern& pattern, const std::vector<Segment>& segments,
                         const std::byte* output);

/// Compares `count` elements at `data` with rank `rank`'s input, from element 0 on: a collective
/// leaves its send buffer as it was.
Mismatches CompareInput(Pattern& pattern, int rank, size_t count, const std::byte* data);

}  // namespace harmonaize::perf
