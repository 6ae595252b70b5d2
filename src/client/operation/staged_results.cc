#include "src/client/operation/staged_results.h"

#include <cstring>

#include "src/client/operation/staging.h"

namespace harmonaize {

void StagedResults::CopyOut() {
  for (const Result& result : results_) std::memcpy(result.to, result.from, result.bytes);
}

void StagedResults::GiveBack() {
  results_.clear();
  for (const Buffer& one : buffers_) StagingPool::Get().Release(one.buffer, one.bytes);
  buffers_.clear();
}

}  // namespace harmonaize
