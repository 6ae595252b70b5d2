#include "src/planner/rated_models.h"

#include <algorithm>
#include <cmath>

namespace harmonaize {
namespace {

/// Models kept: enough for a communicator's plans in use and to come, and for its neighbours' too.
constexpr size_t kMostKept = 8;

}  // namespace

Result<std::shared_ptr<const FabricModel>> RatedModels::With(const EdgeRates& rates) {
  if (rates.empty()) return stated_;
  const std::lock_guard lock(mutex_);
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == rates; });
  if (known != kept_.end()) return known->second;
  Fabric fabric = stated_->fabric();
  for (const EdgeRate& one : rates) {
    if (one.edge < 0 || one.edge >= stated_->edges()) {
      return InvalidArgument("edge {} of a fabric that has {}", one.edge, stated_->edges());
    }
    if (!std::isfinite(one.bytes_per_second) || one.bytes_per_second <= 0) {
      return InvalidArgument("edge {} with a rate of {} bytes a second", one.edge,
                             one.bytes_per_second);
    }
    Link& link = fabric.links[static_cast<size_t>(one.edge / 2)];
    link.bytes_per_second[static_cast<size_t>(one.edge % 2)] = one.bytes_per_second;
  }
  auto model = std::make_shared<const FabricModel>(std::move(fabric));
  kept_.emplace_front(rates, model);
  if (kept_.size() > kMostKept) kept_.pop_back();
  return std::shared_ptr<const FabricModel>(std::move(model));
}

}  // namespace harmonaize
