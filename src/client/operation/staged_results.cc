#include "src/client/operation/staged_results.h"

#include <algorithm>
#include <cstring>

#include "src/base/byte_ranges.h"
#include "src/client/operation/staging.h"

namespace harmonaize {

void StagedResults::CopyOut() {
  for (const Result& result : results_) std::memcpy(result.to, result.from, result.bytes);
}

bool StagedResults::WritesTo(const void* address, uint64_t bytes) const {
  return std::any_of(results_.begin(), results_.end(), [address, bytes](const Result& result) {
    return Overlap(result.to, result.bytes, address, bytes);
  });
}

void StagedResults::GiveBack() {
  results_.clear();
  for (const Buffer& one : buffers_) StagingPool::Get().Release(one.buffer, one.bytes);
  buffers_.clear();
}

}  // namespace harmonaize
