#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "daemon/communicator/matched_operation.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// A communicator's operations that will fail and whose ranks have not been told yet. A tenant may
/// have millions of parts waiting, so the engine fails some at a time and serves other tenants in
/// between. Thread: engine.
class Doomed {
 public:
  void Add(std::vector<MatchedOperation*> operations, std::vector<PostedOperation*> parts,
           const Status& why) {
    for (MatchedOperation* operation : operations) operation->doomed = true;
    batches_.push_back({std::move(operations), std::move(parts), why});
  }
  bool empty() const { return batches_.empty(); }

  /// Removes about this many parts, in the order in which they were added, and calls
  /// `fail_operation` or `fail_part` with each and why it fails. An operation is removed as a
  /// whole.
  template <typename FailOperation, typename FailPart>
  void FailSome(size_t parts, FailOperation&& fail_operation, FailPart&& fail_part) {
    size_t failed = 0;
    while (!batches_.empty() && failed < parts) {
      Batch& batch = batches_.front();
      if (batch.next_operation < batch.operations.size()) {
        MatchedOperation* const operation = batch.operations[batch.next_operation++];
        failed += operation->parts.size();
        fail_operation(operation, batch.why);
      } else if (batch.next_part < batch.parts.size()) {
        ++failed;
        fail_part(batch.parts[batch.next_part++], batch.why);
      } else {
        batches_.pop_front();
      }
    }
  }

 private:
  struct Batch {
    std::vector<MatchedOperation*> operations;
    std::vector<PostedOperation*> parts;
    Status why;
    size_t next_operation = 0;
    size_t next_part = 0;
  };

  std::deque<Batch> batches_;
};

}  // namespace harmonaize::daemon
