#pragma once

#include <functional>
#include <vector>

#include "src/base/status.h"
#include "src/client/operation/operation.h"

namespace harmonaize {

/// What NCCL calls a group: the calls between ncclGroupStart and the matching ncclGroupEnd of one
/// thread. Operations in it start together, on however many communicators, so their order does not
/// matter; communicators that are being made in it are waited for together.
class Group {
 public:
  /// Every thread has one.
  static Group& OfThisThread();

  void Start() { ++depth_; }
  bool open() const { return depth_ > 0; }

  /// Closes the innermost group; the outermost one launches everything. The first failure of any
  /// part; kInProgress when a non-blocking communicator has work under way. kInvalidUsage without
  /// a Start.
  Status End();

  /// Closes the outermost group without running it: seconds that the executor expects it to take.
  Result<double> SimulateEnd();

  /// Posts an operation: at once outside of a group, else when it ends.
  Status Add(const Operation& operation);

  /// Waits for a communicator that forms: at once outside of a group, else when it ends. Does not
  /// wait for one that is non-blocking: kInProgress. `on_formed` is told ok when it is ready by
  /// then, or why it failed, so that the caller can take its handle back. The communicator has to
  /// live for as long as `on_formed` does.
  Status AddForming(Communicator* communicator, std::function<void(const Status&)> on_formed);

  /// Makes the group's end fail: an error inside a group is told by the call and by the end.
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
  // Of the group that is being run; kept, so that a group allocates nothing.
  std::vector<Operation> running_;
  std::vector<Communicator*> communicators_;
  std::vector<Forming> forming_;
};

}  // namespace harmonaize
