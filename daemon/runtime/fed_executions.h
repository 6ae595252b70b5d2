#pragma once

#include "src/base/intrusive_list.h"
#include "src/executor/host/fed_execution.h"

namespace harmonaize::daemon {

/// The executions of all communicators that go slice by slice. A tenant may have tens of thousands
/// under way, so a round looks only at those that are done, and at those whose ranks still copy.
/// Thread: engine.
class FedExecutions {
 public:
  /// Prepares an execution that is about to be started: its owner hears when it is done, from Run.
  void Expect(FedExecution* execution, FedExecutionOwner* owner, void* cookie);
  /// Looks at the execution in each round from now on, until it is done. Requires: it was expected,
  /// and has been started with a feed.
  void Watch(FedExecution* execution);

  /// Feeds executions, and tells the owners of some that are done. Returns whether there was
  /// something to do.
  bool Run();
  /// Returns whether Run has something to do already.
  bool AnyToDo() const;

 private:
  bool FeedSome();
  bool EndSome();

  IntrusiveList<FedExecution> feeding_;  // under way, with ranks that copy meanwhile
  IntrusiveList<FedExecution> done_;
};

}  // namespace harmonaize::daemon
