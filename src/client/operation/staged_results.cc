#include "src/client/operation/staged_results.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "src/base/byte_ranges.h"
#include "src/client/operation/staging.h"

namespace harmonaize {

void StagedResults::CopyOut() {
  for (const Result& result : results_) std::memcpy(result.to, result.from, result.bytes);
}

// A group of tens of thousands asks for each of its operations, so the results are sorted. Those
// that can reach the bytes begin less than the longest one's length before.
bool StagedResults::WritesTo(const void* address, uint64_t bytes) {
  const auto begin_of = [](const Result& result) { return reinterpret_cast<uintptr_t>(result.to); };
  if (!std::exchange(sorted_, true)) {
    std::sort(results_.begin(), results_.end(), [&](const Result& one, const Result& other) {
      return begin_of(one) < begin_of(other);
    });
  }
  const auto first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t earliest = first - std::min<uint64_t>(first, longest_);
  auto result =
      std::lower_bound(results_.begin(), results_.end(), earliest,
                       [&](const Result& one, uintptr_t wanted) { return begin_of(one) < wanted; });
  for (; result != results_.end() && begin_of(*result) < first + bytes; ++result) {
    if (Overlap(result->to, result->bytes, address, bytes)) return true;
  }
  return false;
}

void StagedResults::GiveBack() {
  results_.clear();
  longest_ = 0;
  for (const Buffer& one : buffers_) StagingPool::Get().Release(one.buffer, one.bytes);
  buffers_.clear();
}

}  // namespace harmonaize
