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

/// One operation of a host, to be carried out slice by slice. A rank's buffer is whole, or it is a
/// *window*: a few slots, of which each holds one slice at a time. In a slot the units of the slice
/// lie one after the other.
struct SlicedBinding : Operands {
  const HostProgram* program = nullptr;  ///< Of a schedule with one piece a unit.
  uint64_t slice_elements = 0;           ///< Elements of a unit that go at a time; above 0.
  /// By rank: whether the buffer is a window. A window's view is its first slot.
  std::span<const bool> windowed_inputs;
  std::span<const bool> windowed_outputs;
  /// Slice s lies in slot s % slots of a window.
  uint64_t slot_bytes = 0;
  uint32_t slots = 1;
  SliceFeed* feed = nullptr;  ///< Must live until the operation is done.
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
  /// A rank's buffer.
  struct Buffer {
    MemoryView view;
    bool windowed = false;
  };

  static void OnExecuted(Execution* execution);
  static void Keep(std::span<const MemoryView> views, std::span<const bool> windowed,
                   std::vector<Buffer>* buffers);
  void BeginSlices();
  Status BeginSlice(uint32_t number);
  void Place(const std::vector<Buffer>& buffers, uint32_t number, std::vector<MemoryView>* views,
             std::vector<uint64_t>* strides) const;
  void EndSlice(Slice* slice);
  void Fail(Status status);

  WorkEngine* const work_engine_;
  SlicedBinding binding_;  // its spans are not used
  std::vector<Buffer> inputs_;
  std::vector<Buffer> outputs_;
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
