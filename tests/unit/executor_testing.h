#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/executor/executor.h"
#include "src/memory/buffer.h"
#include "src/schedule/schedule.h"

namespace harmonaize {

/// A forked child that does nothing but hold memory of its own, with a hole of 4 MiB behind. Fork
/// before threads are started.
class ForeignProcess {
 public:
  enum class Pages { kPresent, kNeverArrive };

  /// kNeverArrive: every access of anybody to the memory waits until the child is ended
  /// (userfaultfd).
  explicit ForeignProcess(size_t bytes, Pages pages = Pages::kPresent);
  ~ForeignProcess() { End(); }
  ForeignProcess(const ForeignProcess&) = delete;
  ForeignProcess& operator=(const ForeignProcess&) = delete;

  /// False: the kernel gave no such pages.
  bool valid() const { return valid_; }
  Buffer At(size_t offset) const {
    return {.mapped = nullptr, .process = pid_, .address = address_ + offset};
  }
  /// Kills the child; every copy from and to it fails, or goes on, from then on.
  void End();

 private:
  pid_t pid_ = -1;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
  bool valid_ = false;
};

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
  /// The same, helping in the meantime.
  Execution* HelpUntilFinished();
  void Destroy() { executor_.reset(); }

 private:
  std::atomic<uint32_t> wakes_{0};
  std::unique_ptr<Executor> executor_;
};

/// Where the ranks' buffers of a case lie.
enum class BufferPlacement { kMapped, kPrivate, kMixed };
const char* PlacementName(BufferPlacement placement);

/// One collective on int32 values (sum where it reduces), from filled buffers to the check of every
/// element that the collective defines, against the definition of the collective and no schedule.
struct CollectiveCase {
  Collective collective = Collective::kAllReduce;
  int ranks = 2;
  int root = 0;
  uint64_t count = 0;
  BufferPlacement placement = BufferPlacement::kMapped;
  bool in_place = false;

  std::string ToString() const;
};

class CollectiveRun {
 public:
  /// Private buffers lie in `foreign` from its start; nullptr if there are none.
  CollectiveRun(const CollectiveCase& test_case, const ForeignProcess* foreign);

  /// Bytes of foreign memory that a case needs at most.
  static size_t ForeignBytes(const CollectiveCase& test_case);

  /// Fills the buffers anew; `round` changes all values.
  void Fill(int round);
  Status Bind(Execution& execution, const Machine& machine, bool helpable = false, int node = -1);
  /// "" or what is wrong first.
  std::string Check() const;

 private:
  struct Place {
    Buffer buffer;
    uint64_t elements = 0;
  };

  Place Allocate(uint64_t elements, bool is_private, uint64_t shift);
  void AllocateRank(int rank);
  int32_t Value(int rank, uint64_t element) const;
  /// Element `element` of rank's output, as the collective defines it.
  int32_t Expected(int rank, uint64_t element) const;
  uint64_t InputElements(int rank) const;
  uint64_t OutputElements(int rank) const;

  const CollectiveCase case_;
  const ForeignProcess* foreign_;
  Schedule schedule_;
  std::vector<std::unique_ptr<int32_t[]>> memory_;
  size_t foreign_used_ = 0;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<Buffer> input_buffers_;
  std::vector<Buffer> output_buffers_;
  int round_ = 0;
};

}  // namespace harmonaize
