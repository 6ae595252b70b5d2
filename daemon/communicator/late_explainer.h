#pragma once

#include <string>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"

namespace harmonaize::daemon {

class Communicator;

/// Knows what ranks do that keep others waiting. Thread: engine.
class LateExplainer {
 public:
  /// Returns what follows "has waited 5.0 s for rank 3" in a notice: ", which is stopped: ...";
  /// "" where nothing is known yet.
  virtual std::string Explain(const Communicator& communicator, const OperationKey& operation,
                              const std::vector<int>& ranks) const = 0;

 protected:
  ~LateExplainer() = default;
};

}  // namespace harmonaize::daemon
