#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/runtime/background.h"
#include "src/planner/collective_plan.h"
#include "src/planner/planner.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

/// The class of sizes that a unit of so many bytes falls into: SizeClasses()[SizeClassOf(bytes)] is
/// the nearest, by ratio.
int SizeClassOf(uint64_t bytes);

/// At the home of one communicator: decides by which plan each collective is carried out. Planning
/// takes milliseconds, for large clusters a second, so it happens in the background. For the
/// engine's thread.
class HomePlanner {
 public:
  /// `post` runs a call on the engine's thread. `host_of_rank` in numbers of the fabric's hosts.
  HomePlanner(const Config& config, std::shared_ptr<RatedModels> models,
              std::vector<int> host_of_rank, Background* background,
              std::function<void(std::function<void()>)> post);
  ~HomePlanner();

  /// `done` gets the plan, at once or later; a status that is not ok says that there is none.
  void Ask(const PlanKey& key, std::function<void(const CollectivePlan&)> done);

  /// For the same questions, which have been answered with a plan: of all that was considered, the
  /// `turn`-th best of each, around and around, the best included. Later.
  void AskForOthers(std::vector<PlanKey> keys, size_t turn,
                    std::function<void(std::vector<CollectivePlan>)> done);

  /// A plan in use beside what is best now.
  struct Reviewed {
    double current_seconds = 0;  ///< Predicted for it at the rates of the review.
    /// Predicted for what would be best if all links carried what the fabric states.
    double stated_seconds = 0;
    CollectivePlan best;
  };
  /// From now on plans are made for these rates. `done` gets, later, what becomes of these plans,
  /// which are in use; those of which nothing can be said are left out.
  void Review(std::vector<CollectivePlan> current, const EdgeRates& rates,
              std::function<void(std::vector<Reviewed>)> done);

  /// The planner of a collective, for people who want to see what it chose from; nullptr before it
  /// was asked. `root` -1 for collectives without one.
  std::shared_ptr<const Planner> PlannerFor(Collective collective, int root) const;

 private:
  struct Decision {
    bool made = false;
    CollectivePlan plan;
    std::vector<std::function<void(const CollectivePlan&)>> asking;
  };
  /// What the background thread works with; outlives the planner where need be.
  struct Shared;

  void Decide(const PlanKey& key, const CollectivePlan& plan);
  /// `work`, in the background, makes what `done` gets; not if the planner is gone by then.
  template <typename Work, typename Done>
  void InBackground(Work work, Done done);

  const std::shared_ptr<Shared> shared_;
  Background* const background_;
  const std::function<void(std::function<void()>)> post_;
  /// Gone with the planner, so that what comes back late finds nobody.
  std::shared_ptr<void> alive_;
  std::map<PlanKey, Decision> decisions_;
};

}  // namespace harmonaize::daemon
