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

/// The rate of an edge that does not carry what the fabric states.
struct EdgeRate {
  int edge = 0;
  double bytes_per_second = 0;  ///< Above 0.
  friend bool operator==(const EdgeRate&, const EdgeRate&) = default;
};
/// The rates, sorted by edge; each edge occurs once.
using EdgeRates = std::vector<EdgeRate>;

/// Keeps models of one fabric under several sets of rates: its ways stay the same, what they carry
/// does not. The models that were asked for last are kept. Thread: any.
class RatedModels {
 public:
  explicit RatedModels(std::shared_ptr<const FabricModel> stated) : stated_(std::move(stated)) {}

  /// Returns the model under these rates. Errors: kInvalidArgument for an edge that the fabric does
  /// not have, and for a rate that is not positive.
  Result<std::shared_ptr<const FabricModel>> With(const EdgeRates& rates);

 private:
  const std::shared_ptr<const FabricModel> stated_;
  std::mutex mutex_;
  std::deque<std::pair<EdgeRates, std::shared_ptr<const FabricModel>>> kept_;  // guarded by mutex_
};

}  // namespace harmonaize
