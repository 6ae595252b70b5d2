#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize {

/// Shared memory that stands for private buffers of operations under way. It records what to copy
/// out of it when they have succeeded, and what to give back to the StagingPool when they have
/// ended.
class StagedResults {
 public:
  StagedResults() = default;
  ~StagedResults() { GiveBack(); }
  StagedResults(const StagedResults&) = delete;
  StagedResults& operator=(const StagedResults&) = delete;

  void AddResult(void* to, const std::byte* from, uint64_t bytes) {
    results_.push_back({to, from, bytes});
    sorted_ = false;
    longest_ = std::max(longest_, bytes);
  }
  void AddBuffer(std::byte* buffer, uint64_t bytes) { buffers_.push_back({buffer, bytes}); }

  bool empty() const { return results_.empty() && buffers_.empty(); }
  /// Returns whether a result is to be copied to some of these bytes.
  bool WritesTo(const void* address, uint64_t bytes);

  void CopyOut();
  void GiveBack();

 private:
  struct Result {
    void* to;
    const std::byte* from;
    uint64_t bytes;
  };
  struct Buffer {
    std::byte* buffer;
    uint64_t bytes;
  };

  std::vector<Result> results_;
  bool sorted_ = false;   // results_, by address
  uint64_t longest_ = 0;  // result, in bytes
  std::vector<Buffer> buffers_;
};

}  // namespace harmonaize
