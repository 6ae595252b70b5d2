#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace harmonaize {
struct OperationDescriptor;
struct Operands;
}  // namespace harmonaize

namespace harmonaize::daemon {

struct MatchedOperation;

/// Has operations carried out among the ranks of this host: a communicator.
class LocalOwner {
 public:
  /// The operation has been carried out, or given up, with this outcome.
  virtual void OnLocalDone(MatchedOperation* operation, const Status& outcome) = 0;
  /// An exception interrupted an operation.
  virtual void GiveUp(const Status& exception) = 0;
  /// Sets whose work an operation is, and what threads may do for it.
  virtual void SetWorkTerms(const OperationDescriptor& descriptor, Operands* operands) = 0;
  /// Charges the tenant for this many bytes more.
  virtual Status Pay(int64_t bytes) = 0;

 protected:
  ~LocalOwner() = default;
};

}  // namespace harmonaize::daemon
