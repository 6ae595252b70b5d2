#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/executor/host/executor.h"
#include "src/memory/memory_view.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// An executor whose owner is the test's thread.
class TestExecutor {
 public:
  explicit TestExecutor(int workers, size_t cache_bytes = size_t{1} << 20,
                        size_t last_level_bytes = size_t{32} << 20);
  explicit TestExecutor(Executor::Options options);

  Executor& operator*() { return *executor_; }
  Executor* operator->() { return executor_.get(); }

  /// Sleeps until an execution has finished.
  Execution* Wait();
  /// Waits like Wait, helping in the meantime.
  Execution* HelpUntilFinished();
  void Destroy() { executor_.reset(); }

 private:
  std::atomic<uint32_t> wakes_{0};
  std::unique_ptr<Executor> executor_;
};

/// One collective on int32 values (sum where it reduces), from filled buffers to the check of every
/// element that the collective defines. The check follows the definition of the collective and uses
/// no schedule.
struct CollectiveCase {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int root = 0;
  uint64_t count = 0;
  bool in_place = false;

  std::string ToString() const;
};

class CollectiveRun {
 public:
  explicit CollectiveRun(const CollectiveCase& test_case);

  /// Fills the buffers anew; `round` changes all values.
  void Fill(int round);
  Status Bind(Execution& execution, const Machine& machine, bool helpable = false, int node = -1);
  /// Returns "" or the first error.
  std::string Check() const;

  /// The tenant, its weight, the job and its bound, for Bind; what else it says is not used.
  Operands terms;

 private:
  struct Place {
    MemoryView buffer;
    uint64_t elements = 0;
  };

  Place Allocate(uint64_t elements, uint64_t shift);
  void AllocateRank(int rank);
  int32_t Value(int rank, uint64_t element) const;
  /// Returns element `element` of rank's output, as the collective defines it.
  int32_t Expected(int rank, uint64_t element) const;
  uint64_t InputElements(int rank) const;
  uint64_t OutputElements(int rank) const;

  const CollectiveCase case_;
  Schedule schedule_;
  std::vector<std::unique_ptr<int32_t[]>> memory_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<MemoryView> input_buffers_;
  std::vector<MemoryView> output_buffers_;
  int round_ = 0;
};

}  // namespace harmonaize
