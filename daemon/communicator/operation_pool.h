#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/communicator/matched_operation.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Keeps the operations of a communicator that have ended, so that the steady state allocates
/// nothing. Thread: engine.
class OperationPool {
 public:
  /// `pay` charges the tenant for this many bytes more.
  OperationPool(Communicator* communicator, std::function<Status(int64_t bytes)> pay)
      : communicator_(communicator), pay_(std::move(pay)) {}

  /// Returns an operation with places for `parts` parts, all of them empty, whose buffers will be
  /// those of up to `ranks` ranks. Returns the errors of `pay`.
  Result<MatchedOperation*> Take(size_t parts, size_t ranks);
  void GiveBack(MatchedOperation* operation);

 private:
  Communicator* const communicator_;
  const std::function<Status(int64_t bytes)> pay_;
  std::vector<std::unique_ptr<MatchedOperation>> all_;
  std::vector<MatchedOperation*> free_;
};

}  // namespace harmonaize::daemon
