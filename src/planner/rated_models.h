#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/planner/fabric_model.h"

namespace harmonaize {

/// What an edge of a fabric carries, where that is not what the fabric states.
struct EdgeRate {
  int edge = 0;
  double bytes_per_second = 0;  ///< Above 0.
  friend bool operator==(const EdgeRate&, const EdgeRate&) = default;
};
/// By edge, each once.
using EdgeRates = std::vector<EdgeRate>;

/// One fabric as it is under several sets of rates: the ways through it stay the same, what they
/// carry does not. Those that were asked for last are kept. Any thread.
class RatedModels {
 public:
  explicit RatedModels(std::shared_ptr<const FabricModel> stated) : stated_(std::move(stated)) {}

  /// kInvalidArgument for an edge that the fabric does not have, and for a rate that is none.
  Result<std::shared_ptr<const FabricModel>> With(const EdgeRates& rates);

 private:
  const std::shared_ptr<const FabricModel> stated_;
  std::mutex mutex_;
  std::deque<std::pair<EdgeRates, std::shared_ptr<const FabricModel>>> kept_;  // guarded by mutex_
};

}  // namespace harmonaize
