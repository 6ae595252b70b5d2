#pragma once

#include "src/base/intrusive_list.h"
#include "src/base/status.h"

namespace harmonaize {

class FedExecution;

/// Hears of the executions that it has started.
class FedExecutionOwner {
 public:
  /// The execution is done: nothing of it is under way any more.
  virtual void OnDone(FedExecution* execution) = 0;
  /// An exception interrupted the execution, which may never be done.
  virtual void OnException(FedExecution* execution, const Status& exception) = 0;

 protected:
  ~FedExecutionOwner() = default;
};

/// An operation that is carried out slice by slice, and that may wait for ranks to fill slices
/// (SliceFeed). Thread: one, that of its owner.
class FedExecution : public ListNode {
 public:
  /// Returns whether slices could begin that had not been filled before.
  virtual bool CanFeed() const = 0;
  /// Begins these slices. Returns whether there were any.
  virtual bool Feed() = 0;
  /// Returns whether nothing is under way any more: the buffers are no longer touched.
  virtual bool done() const = 0;

  /// For the starter's use. The list is where the execution puts itself when it is done; nullptr:
  /// nowhere.
  FedExecutionOwner* owner = nullptr;
  void* cookie = nullptr;
  IntrusiveList<FedExecution>* done_list = nullptr;

 protected:
  ~FedExecution() = default;
  void NoteIfDone() {
    if (done_list != nullptr && done()) done_list->PushBack(this);
  }
};

}  // namespace harmonaize
