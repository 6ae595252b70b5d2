#include "daemon/plans/home_planner.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "daemon/plans/host_plan.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"
#include "src/planner/plan_file.h"
#include "src/transport/tcp/tcp_channel.h"

namespace harmonaize::daemon {

// Predictions assume this limit of the transport.
static_assert(NetworkCosts{}.eager_bytes == transport::TcpChannel::kMaxEagerBytes);

/// Most planners that a communicator keeps, each for a collective and a root. A planner is made
/// again when it is needed again, in the background.
constexpr size_t kMostPlanners = 32;

int SizeClassOf(uint64_t bytes) {
  static const std::vector<uint64_t> kClasses = SizeClasses();
  size_t nearest = 0;
  // The ratio between neighbours is four, so twice as much is half way.
  while (nearest + 1 < kClasses.size() && bytes > 2 * kClasses[nearest]) ++nearest;
  return static_cast<int>(nearest);
}

namespace {

/// Returns a job's terms with what the configuration says where the job says nothing.
PlanTerms WithDefaults(PlanTerms terms, const PlansConfig& config) {
  terms.reproducible |= config.reproducible;
  if (terms.wire.AllowsAny()) return terms;
  const WireFormat most = FindWireFormat(config.compression).value_or(WireFormat::kSame);
  terms.wire.bf16 = most != WireFormat::kSame;
  terms.wire.fp8 = most == WireFormat::kFp8;
  terms.wire.error_bound = config.compression_error_bound;
  return terms;
}

}  // namespace

struct HomePlanner::Shared {
  PlansConfig config;
  NetworkCosts costs;
  std::shared_ptr<RatedModels> models;
  std::vector<int> host_of_rank;

  /// A planner with the model that it borrows.
  struct OnModel {
    EdgeRates rates;
    std::shared_ptr<const FabricModel> model;
    Planner planner;
  };
  std::mutex mutex;
  EdgeRates rates;  // guarded by mutex
  /// A planner, and what it is for.
  struct Known {
    Collective collective;
    int root;
    PlanTerms terms;
    std::shared_ptr<const OnModel> planner;
  };
  std::vector<Known> planners;  // for these rates, the oldest first; likewise

  // The background thread's: by key, the terms and the time.
  std::map<PlanKey, std::pair<PlanTerms, double>> stated_seconds;

  Problem ProblemOf(Collective collective, int root) const;
  std::shared_ptr<const OnModel> FindPlanner(const Asked& asked) const;  // requires: mutex
  Result<std::shared_ptr<const OnModel>> PlannerFor(const Asked& asked);
  Result<Planner> MakePlanner(const FabricModel& model, const Problem& problem,
                              const PlanTerms& terms) const;
  /// Returns the `turn`-th best plan, beginning again after the last one. Throws nothing, since a
  /// caller waits for the answer.
  CollectivePlan Plan(const Asked& asked, size_t turn);
  Status Choose(const Asked& asked, size_t turn, CollectivePlan* plan);
  void SetRates(const EdgeRates& now);
  /// Returns the predicted time of the best plan if all links carry what the fabric states. Thread:
  /// one, the background's.
  Result<double> StatedSeconds(const Asked& asked);
  Result<double> PredictNow(const CollectivePlan& plan, const EdgeRates& now) const;
};

Result<Planner> HomePlanner::Shared::MakePlanner(const FabricModel& model, const Problem& problem,
                                                 const PlanTerms& terms) const {
  PlannerOptions options{.costs = costs, .terms = WithDefaults(terms, config)};
  options.policy = FindPlanPolicy(config.policy).value_or(PlanPolicy::kAdaptive);
  Status why;
  if (options.policy == PlanPolicy::kFixed) {
    Result<PlanSpec> spec = LoadPlanFile(config.file, model);
    if (spec.ok()) {
      options.fixed = std::move(*spec);
    } else {
      why = spec.status();
    }
  }
  if (why.ok()) {
    Result<Planner> planner = Planner::Make(model, problem, options);
    if (planner.ok()) return planner;
    why = planner.status();
  }
  // A tenant has not written the configuration, and gets its operation all the same.
  if (options.policy != PlanPolicy::kAdaptive) {
    Log(LogLevel::kWarning, kLogTuning,
        "the policy '{}' has no plan for {} of {} ranks, so it is planned adaptively: {}",
        config.policy, CollectiveName(problem.collective), host_of_rank.size(), why.message());
    options.policy = PlanPolicy::kAdaptive;
    Result<Planner> planner = Planner::Make(model, problem, options);
    if (planner.ok()) return planner;
  }
  // So does a job whose algorithms do not carry out this collective.
  options.terms.allowed_algorithms.clear();
  options.terms.forbidden_algorithms.clear();
  Result<Planner> planner = Planner::Make(model, problem, options);
  if (planner.ok() || !options.terms.reproducible) return planner;
  options.terms.reproducible = false;
  return Planner::Make(model, problem, options);
}

// Some ranks may work in place and others not: a plan has to serve both.
Problem HomePlanner::Shared::ProblemOf(Collective collective, int root) const {
  return {.collective = collective, .host_of_rank = host_of_rank, .root = root, .in_place = true};
}

std::shared_ptr<const HomePlanner::Shared::OnModel> HomePlanner::Shared::FindPlanner(
    const Asked& asked) const {
  const auto found = std::find_if(planners.begin(), planners.end(), [&](const Known& known) {
    return known.collective == asked.key.collective && known.root == asked.key.root &&
           known.terms == asked.terms;
  });
  return found == planners.end() ? nullptr : found->planner;
}

Result<std::shared_ptr<const HomePlanner::Shared::OnModel>> HomePlanner::Shared::PlannerFor(
    const Asked& asked) {
  EdgeRates now;
  {
    const std::lock_guard lock(mutex);
    if (std::shared_ptr<const OnModel> known = FindPlanner(asked)) return known;
    now = rates;
  }
  const auto [collective, root, size_class] = asked.key;
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<const FabricModel> model, models->With(now));
  HZ_ASSIGN_OR_RETURN(Planner made, MakePlanner(*model, ProblemOf(collective, root), asked.terms));
  auto planner = std::make_shared<const OnModel>(OnModel{now, std::move(model), std::move(made)});
  const std::lock_guard lock(mutex);
  if (rates != now) return std::shared_ptr<const OnModel>(std::move(planner));
  if (planners.size() >= kMostPlanners) planners.erase(planners.begin());
  planners.push_back({collective, root, asked.terms, planner});
  return std::shared_ptr<const OnModel>(std::move(planner));
}

void HomePlanner::Shared::SetRates(const EdgeRates& now) {
  const std::lock_guard lock(mutex);
  if (rates == now) return;
  rates = now;
  planners.clear();
}

CollectivePlan HomePlanner::Shared::Plan(const Asked& asked, size_t turn) {
  CollectivePlan plan{.key = asked.key};
  plan.status = Caught([&] { return Choose(asked, turn, &plan); });
  return plan;
}

Status HomePlanner::Shared::Choose(const Asked& asked, size_t turn, CollectivePlan* chosen_plan) {
  CollectivePlan& plan = *chosen_plan;
  const PlanKey& key = asked.key;
  HZ_ASSIGN_OR_RETURN(const auto made, PlannerFor(asked));
  const Planner& planner = made->planner;
  const PlannedSize planned = planner.PlanFor(SizeClasses()[static_cast<size_t>(key.size_class)]);
  const RankedPlan& chosen = planned.plans[turn % planned.plans.size()];
  const PlanSpec& spec = planner.candidates()[chosen.candidate].spec;
  plan.algorithm = spec.algorithm->name;
  plan.order = spec.order.hosts;
  plan.order_name = spec.order.name;
  plan.groups = spec.groups;
  plan.groups_name = spec.groups_name;
  plan.pieces = chosen.pieces;
  plan.slice_bytes = chosen.slice.bytes;
  plan.slices_at_once = chosen.slice.at_once;
  plan.wire = chosen.wire;
  plan.paths = spec.paths;
  plan.rates = made->rates;
  plan.predicted_seconds = chosen.prediction.seconds;
  plan.bound_seconds = planned.bound_seconds;
  Log(LogLevel::kInfo, kLogTuning,
      "{} of {} bytes on {} hosts: {} {} {} in {} pieces, slices of {} bytes, {} on the wire, "
      "{:.1f} us",
      CollectiveName(key.collective), planned.bytes, HostPlacement(host_of_rank).hosts(),
      plan.algorithm, plan.order_name, PathUseName(spec.paths), plan.pieces, plan.slice_bytes,
      WireFormatName(plan.wire), plan.predicted_seconds * 1e6);
  return Status::Ok();
}

Result<double> HomePlanner::Shared::StatedSeconds(const Asked& asked) {
  const PlanKey& key = asked.key;
  const auto known = stated_seconds.find(key);
  if (known != stated_seconds.end() && known->second.first == asked.terms) {
    return known->second.second;
  }
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> model, models->With({}));
  HZ_ASSIGN_OR_RETURN(const Planner planner,
                      MakePlanner(*model, ProblemOf(key.collective, key.root), asked.terms));
  const uint64_t bytes = SizeClasses()[static_cast<size_t>(key.size_class)];
  const double seconds = planner.PlanFor(bytes).plans.front().prediction.seconds;
  stated_seconds[key] = {asked.terms, seconds};
  return seconds;
}

// Predicts the time of a plan at the rates of now, whatever rates the plan was made for.
Result<double> HomePlanner::Shared::PredictNow(const CollectivePlan& plan,
                                               const EdgeRates& now) const {
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> before, models->With(plan.rates));
  HZ_ASSIGN_OR_RETURN(const std::shared_ptr<const FabricModel> after, models->With(now));
  HZ_ASSIGN_OR_RETURN(const PlanSpec spec, SpecOf(plan));
  const Problem problem = ProblemOf(plan.key.collective, plan.key.root);
  HZ_ASSIGN_OR_RETURN(const Planner planner,
                      Planner::Make(*before, problem,
                                    {.policy = PlanPolicy::kFixed, .fixed = spec, .costs = costs}));
  const RankedPlan ranked{.pieces = plan.pieces,
                          .slice = {plan.slice_bytes, plan.slices_at_once},
                          .wire = plan.wire,
                          .prediction = {}};
  const uint64_t bytes = SizeClasses()[static_cast<size_t>(plan.key.size_class)];
  HZ_ASSIGN_OR_RETURN(const Prediction prediction, planner.PredictOn(*after, ranked, bytes));
  return prediction.seconds;
}

HomePlanner::HomePlanner(const Config& config, std::shared_ptr<RatedModels> models,
                         std::vector<int> host_of_rank, TermsOf terms, Background* background,
                         uint32_t tenant, std::function<void(std::function<void()>)> post)
    : shared_(std::make_shared<Shared>()),
      terms_of_(std::move(terms)),
      background_(background),
      tenant_(tenant),
      post_(std::move(post)) {
  shared_->config = config.plans;
  shared_->costs = config.costs.ToNetworkCosts();
  shared_->models = std::move(models);
  shared_->host_of_rank = std::move(host_of_rank);
}

HomePlanner::~HomePlanner() = default;

void HomePlanner::Ask(const PlanKey& key, std::function<void(const CollectivePlan&)> done) {
  const auto [found, first] = decisions_.try_emplace(key);
  if (found->second.made) return done(found->second.plan);
  found->second.asking.push_back(std::move(done));
  if (!first) return;
  InBackground(
      std::vector{AskedFor(key)},
      [shared = shared_](const Asked& asked) { return shared->Plan(asked, 0); },
      [this, key](std::vector<CollectivePlan> plans) {
        if (plans.empty()) plans.push_back({.key = key, .status = InternalError("no plan")});
        Decide(key, plans.front());
      });
}

void HomePlanner::AskForOthers(std::vector<PlanKey> keys, size_t turn,
                               std::function<void(std::vector<CollectivePlan>)> done) {
  std::vector<Asked> all;
  for (const PlanKey& key : keys) all.push_back(AskedFor(key));
  const auto plan = [shared = shared_, turn](const Asked& asked) {
    return shared->Plan(asked, turn);
  };
  InBackground(std::move(all), plan, std::move(done));
}

void HomePlanner::Review(std::vector<CollectivePlan> current, const EdgeRates& rates,
                         std::function<void(std::vector<Reviewed>)> done) {
  shared_->SetRates(rates);
  struct InUse {
    Asked asked;
    CollectivePlan plan;
  };
  std::vector<InUse> all;
  for (CollectivePlan& plan : current) all.push_back({AskedFor(plan.key), std::move(plan)});
  const auto review = [shared = shared_, rates](const InUse& one) -> std::optional<Reviewed> {
    const Result<double> seconds = shared->PredictNow(one.plan, rates);
    const Result<double> stated = shared->StatedSeconds(one.asked);
    if (!seconds.ok() || !stated.ok()) return std::nullopt;
    CollectivePlan best = shared->Plan(one.asked, 0);
    if (!best.status.ok()) return std::nullopt;
    return Reviewed{*seconds, *stated, std::move(best)};
  };
  InBackground(std::move(all), review,
               [done = std::move(done)](const std::vector<std::optional<Reviewed>>& found) {
                 std::vector<Reviewed> reviewed;
                 for (const auto& one : found) {
                   if (one.has_value()) reviewed.push_back(*one);
                 }
                 done(std::move(reviewed));
               });
}

template <typename Item, typename Work, typename Done>
void HomePlanner::InBackground(std::vector<Item> items, Work work, Done done) {
  // The background runs the calls of one tenant one after the other.
  const auto made = std::make_shared<std::vector<std::invoke_result_t<const Work&, const Item&>>>();
  for (Item& item : items) {
    background_->Post([work, item = std::move(item), made] { made->push_back(work(item)); },
                      tenant_);
  }
  background_->Post(
      [post = post_, made, finish = lifetime_.Guard(std::move(done)), caller = LogFor::Current()] {
        post([finish, made, caller] {
          const LogFor log_for(caller);
          finish(std::move(*made));
        });
      },
      tenant_);
}

void HomePlanner::Decide(const PlanKey& key, const CollectivePlan& plan) {
  Decision& decision = decisions_[key];
  decision.made = true;
  decision.plan = plan;
  for (const auto& done : std::exchange(decision.asking, {})) done(plan);
}

std::shared_ptr<const Planner> HomePlanner::PlannerFor(const PlanKey& key) const {
  const std::lock_guard lock(shared_->mutex);
  const std::shared_ptr<const Shared::OnModel> found = shared_->FindPlanner(AskedFor(key));
  if (found == nullptr) return nullptr;
  return std::shared_ptr<const Planner>(found, &found->planner);
}

}  // namespace harmonaize::daemon
