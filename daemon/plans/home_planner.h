#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/lifetime.h"
#include "src/planner/collective_plan.h"
#include "src/planner/plan_terms.h"
#include "src/planner/planner.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

/// Returns the class of sizes that a unit of this many bytes falls into:
/// SizeClasses()[SizeClassOf(bytes)] is the nearest, by ratio.
int SizeClassOf(uint64_t bytes);

/// At the home of one communicator: decides by which plan each collective is carried out. Planning
/// takes milliseconds, for large clusters a second, so it happens in the background. Thread:
/// engine.
class HomePlanner {
 public:
  /// What a job says of the plan of a key now.
  using TermsOf = std::function<PlanTerms(const PlanKey&)>;

  /// `host_of_rank` has the fabric's numbers of hosts. `tenant` is the tenant whose turns in the
  /// background planning takes, see Background. `post` runs a call on the engine's thread.
  HomePlanner(const Config& config, std::shared_ptr<RatedModels> models,
              std::vector<int> host_of_rank, TermsOf terms, Background* background, uint32_t tenant,
              std::function<void(std::function<void()>)> post);
  ~HomePlanner();

  /// Calls `done` with the plan, at once or later; a status that is not ok says that there is none.
  void Ask(const PlanKey& key, std::function<void(const CollectivePlan&)> done);

  /// Returns whether a plan was asked for.
  bool Knows(const PlanKey& key) const { return decisions_.contains(key); }

  /// Calls `done` later with other plans for these keys, which have been answered before: the
  /// `turn`-th best of all plans that were considered for each, beginning again after the last one.
  /// The best is among them.
  void AskForOthers(std::vector<PlanKey> keys, size_t turn,
                    std::function<void(std::vector<CollectivePlan>)> done);

  /// A plan in use, beside the best plan now.
  struct Reviewed {
    double current_seconds = 0;  ///< Predicted for it at the rates of the review.
    /// Predicted for what would be best if all links carried what the fabric states.
    double stated_seconds = 0;
    CollectivePlan best;
  };
  /// Makes plans for these rates from now on. Calls `done` later with the plans in use beside the
  /// best ones; plans of which nothing can be predicted are left out.
  void Review(std::vector<CollectivePlan> current, const EdgeRates& rates,
              std::function<void(std::vector<Reviewed>)> done);

  /// Returns the planner of a plan's collective by the terms of now, for reports on what it chose
  /// from; nullptr if no plan was made at the rates of now.
  std::shared_ptr<const Planner> PlannerFor(const PlanKey& key) const;

 private:
  struct Decision {
    bool made = false;
    CollectivePlan plan;
    std::vector<std::function<void(const CollectivePlan&)>> asking;
  };
  /// What the background thread works with; outlives the planner where need be.
  struct Shared;

  void Decide(const PlanKey& key, const CollectivePlan& plan);
  /// Calls `work` for each item in the background, in a turn of its own, so that a tenant's plans
  /// hold up another's for the time of one. Calls `done` with the vector of results, unless the
  /// planner is gone by then. An item whose work throws has no result.
  template <typename Item, typename Work, typename Done>
  void InBackground(std::vector<Item> items, Work work, Done done);

  /// A key, with what its job says of it.
  struct Asked {
    PlanKey key;
    PlanTerms terms;
  };
  Asked AskedFor(const PlanKey& key) const { return {key, terms_of_(key)}; }

  const std::shared_ptr<Shared> shared_;
  const TermsOf terms_of_;
  Background* const background_;
  const uint32_t tenant_;
  const std::function<void(std::function<void()>)> post_;
  std::map<PlanKey, Decision> decisions_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
