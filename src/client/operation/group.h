#pragma once

#include <functional>
#include <vector>

#include "src/base/status.h"
#include "src/client/operation/operation.h"

namespace harmonaize {

/// A group, in NCCL's sense: the calls between ncclGroupStart and the matching ncclGroupEnd of one
/// thread. Its operations start together, on however many communicators, so their order does not
/// matter. Communicators that are made in it are waited for together.
class Group {
 public:
  /// Returns the calling thread's group; every thread has one.
  static Group& OfThisThread();

  void Start() { ++depth_; }
  bool open() const { return depth_ > 0; }
  /// Returns whether the next End launches the group.
  bool outermost() const { return depth_ == 1; }

  /// Closes the innermost group; closing the outermost one launches everything. Returns the first
  /// failure of any part, or kInProgress when a non-blocking communicator has work under way.
  /// Errors: kInvalidUsage without a Start.
  Status End();

  /// Closes the outermost group without running it. Returns the seconds that the executor predicts.
  Result<double> SimulateEnd();

  /// Posts an operation: at once outside of a group, else when the group ends.
  Status Add(const Operation& operation);

  /// Waits for a communicator that forms: at once outside of a group, else when the group ends.
  /// Does not wait for a non-blocking one, but returns kInProgress. `on_formed` is called with ok
  /// if it is ready by then, or with the reason why it failed, so that the caller can take its
  /// handle back. Requires: the communicator lives as long as `on_formed` does.
  Status AddForming(Communicator* communicator, std::function<void(const Status&)> on_formed);

  /// Makes the group's end fail: an error inside a group is reported by the call and by the end.
  void NoteFailure(const Status& status);

 private:
  struct Forming {
    Communicator* communicator;
    std::function<void(const Status&)> on_formed;
  };
  Status AwaitForming();
  Status Run();

  int depth_ = 0;
  Status failure_;
  std::vector<Operation> operations_;
  // State of the group that is being run; kept, so that a group allocates nothing.
  std::vector<Operation> running_;
  std::vector<Communicator*> communicators_;
  std::vector<Forming> forming_;
};

}  // namespace harmonaize
