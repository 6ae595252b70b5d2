#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/client/operation/operation.h"
#include "src/client/operation/window_copy.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// The sends, or the receives, of one launch on one communicator that go through windows. The
/// daemon chooses their order: the member's two lanes of this kind, for peers on this host and on
/// others, say which is under way. Thread: one at a time.
class PairCopies {
 public:
  /// `near`, `far`: the lanes.
  PairCopies(SliceProgress* near, SliceProgress* far) : lanes_{Lane{near}, Lane{far}} {}

  /// Adds an operation. Requires: its sequence is above those of the ones before.
  void Add(const Operation& operation, const OperationDescriptor& descriptor);

  /// Copies some of what can be copied now. Returns whether there was something. `succeeded`:
  /// whether the results of operations that have ended are worth copying.
  bool Step(bool succeeded);
  bool CanStep() const;
  /// Ends what is left. Requires: all operations have ended.
  void Finish(bool succeeded);
  bool empty() const { return left_ == 0; }

  /// Returns whether results that are still to come lie within these bytes.
  bool WritesTo(const void* address, uint64_t bytes) const;

 private:
  struct Copy {
    uint64_t sequence;
    std::unique_ptr<WindowCopy> window;  // nullptr: it has ended
  };
  struct Lane {
    SliceProgress* words;
    WindowCopy* under_way = nullptr;
  };

  bool StepIn(Lane* lane, bool succeeded);
  size_t PlaceOf(uint64_t sequence) const;
  WindowCopy* Named(const Lane& lane) const;
  void End(Lane* lane, bool succeeded);

  std::array<Lane, 2> lanes_;
  std::vector<Copy> copies_;  // by sequence; those in between are on other queues
  size_t left_ = 0;
};

}  // namespace harmonaize
