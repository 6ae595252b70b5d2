#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/fed_execution.h"
#include "src/executor/host/slice_feed.h"
#include "src/executor/host/work_engine.h"
#include "src/memory/memory_view.h"

namespace harmonaize {

/// One operation of a host, to be carried out slice by slice. A rank's buffer is whole, or the feed
/// tells of a *window*: a few slots, of which each holds one slice at a time.
struct SlicedBinding : Operands {
  const HostProgram* program = nullptr;  ///< Of a schedule with one piece a unit.
  uint64_t slice_elements = 0;           ///< Elements of a unit that go at a time; above 0.
  uint32_t slots = 1;                    ///< Of each window; slices under way at once.
  SliceFeed* feed = nullptr;             ///< Must live until the operation is done.
};

/// Carries out a program slice by slice, as ranks fill them. It is made once and started again and
/// again, and keeps the memory it has grown to. Thread: one, the owner of the work engine.
class SlicedExecution final : public FedExecution {
 public:
  explicit SlicedExecution(WorkEngine* work) : work_engine_(work) {}
  /// Requires: nothing is under way.
  ~SlicedExecution() = default;
  SlicedExecution(const SlicedExecution&) = delete;
  SlicedExecution& operator=(const SlicedExecution&) = delete;

  /// Errors: kInternalError for a binding that makes no sense, and those of Execution::Bind.
  Status Start(const SlicedBinding& binding);
  bool CanFeed() const override;
  bool Feed() override;
  /// Ends the operation early with `reason`, unless it has failed already. It is done once all that
  /// is under way has come back.
  void Cancel(Status reason);
  bool done() const override { return running_ == 0 && (carried_ == slices_ || !status_.ok()); }
  /// Once done: ok, or the first failure.
  const Status& status() const { return status_; }

 private:
  /// One slice under way.
  struct Slice {
    Execution execution;
    SlicedExecution* owner = nullptr;
    bool running = false;
  };
  static void OnExecuted(Execution* execution);
  static void Keep(std::span<const MemoryView> views, std::vector<SlicedBuffer>* buffers);
  void BeginSlices();
  Status BeginSlice(uint32_t number);
  void Place(const std::vector<SlicedBuffer>& buffers, uint32_t number,
             std::vector<MemoryView>* views, std::vector<uint64_t>* strides) const;
  void EndSlice(Slice* slice);
  void Fail(Status status);

  WorkEngine* const work_engine_;
  SlicedBinding binding_;  // its spans are not used
  std::vector<SlicedBuffer> inputs_;
  std::vector<SlicedBuffer> outputs_;
  std::vector<uint64_t> scalars_;
  // Of the slice that begins.
  std::vector<MemoryView> input_views_;
  std::vector<MemoryView> output_views_;
  std::vector<uint64_t> input_strides_;
  std::vector<uint64_t> output_strides_;

  std::vector<std::unique_ptr<Slice>> places_;  // slice s runs in place s % slots
  uint32_t slices_ = 0;
  uint32_t begun_ = 0;    // slices, from the first on
  uint32_t carried_ = 0;  // likewise
  uint32_t running_ = 0;
  Status status_;
};

}  // namespace harmonaize
