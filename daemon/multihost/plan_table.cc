#include "daemon/multihost/plan_table.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/plans/job_plan_terms.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Returns the error for tenants, who are to learn nothing of the fabric that plans are made on.
Status NoPlan() {
  return InternalError("no plan could be made for this operation; the provider's log says why");
}

/// Most plans of a communicator that reports list, and that are reviewed. A job uses a dozen.
constexpr std::ptrdiff_t kMostRecords = 64;
/// The least number of operations whose average time counts as usual: the first ones take longer.
constexpr uint64_t kUsualOperations = 8;

/// Memory that a plan takes beside its program, in bytes: of itself, and for each host.
constexpr int64_t kPlanBytes = 4096;
constexpr int64_t kPlanBytesOfHost = 64;

}  // namespace

PlanTable::PlanTable(const HostServices& services, Communicator* communicator, HostGroup* group)
    : services_(services),
      communicator_(communicator),
      host_group_(group),
      share_(communicator->name(), group->roster().key),
      switching_(communicator, group, this) {
  if (!host_group_->is_home()) return;
  home_planner_ = std::make_unique<HomePlanner>(
      *services.config, host_group_->fabric()->rated, FabricHostOfRank(),
      [this](const PlanKey& key) { return TermsOf(key); }, services.background,
      communicator->tenant().identity.number,
      [loop = services.loop](std::function<void()> call) { loop->Post(std::move(call)); });
  control_ = std::make_unique<PlanControl>(
      services_.config->plans, home_planner_.get(), &switching_, [this] { return Records(); },
      [this](const EdgeRates& rates) { TellRates(rates); },
      [this](CongestionLevel level, double times) {
        communicator_->observers().Tell(&CommunicatorObserver::OnCongestionChanged, *communicator_,
                                        level, times);
      },
      [this](bool degraded, double times) {
        communicator_->observers().Tell(&CommunicatorObserver::OnLinksChanged, *communicator_,
                                        degraded, times);
      });
}

const transport::TenantShare& PlanTable::share() {
  return share_.Of(*communicator_->job());
}

// What is kept of one plan for as long as the communicator lasts.
int64_t PlanTable::KeptBytes() const {
  return kPlanBytes + kPlanBytesOfHost * host_group_->roster().hosts();
}

PlanKey PlanTable::KeyFor(const OperationDescriptor& descriptor) {
  const int root = HasRoot(descriptor.collective) ? descriptor.root : -1;
  const int size_class = SizeClassOf(descriptor.count * DataTypeSize(descriptor.type));
  return {descriptor.collective, root, size_class};
}

PlanTerms PlanTable::TermsOf(const PlanKey& key) const {
  const uint64_t bytes = OperationBytes(key.collective, communicator_->ranks(),
                                        SizeClasses()[static_cast<size_t>(key.size_class)]);
  return PlanTermsOf(communicator_->own_terms().For(key.collective, bytes));
}

void PlanTable::OnTermsChanged() {
  if (control_ != nullptr) control_->OnTermsChanged();
}

std::vector<int> PlanTable::FabricHostOfRank() const {
  std::vector<int> hosts;
  for (const int host : host_group_->roster().host_of_rank) {
    hosts.push_back(host_group_->roster().fabric_hosts[static_cast<size_t>(host)]);
  }
  return hosts;
}

int PlanTable::HostOfFabricHost(int fabric_host) const {
  const auto found = std::find(host_group_->roster().fabric_hosts.begin(),
                               host_group_->roster().fabric_hosts.end(), fabric_host);
  return static_cast<int>(found - host_group_->roster().fabric_hosts.begin());
}

Result<HostPlan*> PlanTable::PlanFor(const OperationDescriptor& descriptor) {
  const PlanKey key = KeyFor(descriptor);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    HZ_RETURN_IF_ERROR(communicator_->Pay(KeptBytes()));
    found = plans_.try_emplace(key).first;
    host_group_->TellHome(AskPlanMessage{host_group_->roster().key, key});
  }
  const PlanEntry& entry = found->second;
  if (!switching_.MayBegin(key, descriptor.sequence)) return static_cast<HostPlan*>(nullptr);
  const size_t version = VersionFor(entry.begin_at, descriptor.sequence);
  if (version == 0 && !entry.failure.ok()) return entry.failure;
  HostPlan* const plan = entry.versions[version].plan.get();
  if (plan != nullptr) DealAnew(plan);
  return plan;
}

void PlanTable::OnAskPlan(transport::PeerId peer, const AskPlanMessage& question) {
  if (question.key.root >= communicator_->ranks()) {
    return services_.cluster->transport().Disconnect(peer, "a plan for a root that is no rank");
  }
  if (!home_planner_->Knows(question.key)) {
    const Status paid = communicator_->Pay(KeptBytes());
    if (!paid.ok()) return host_group_->BreakSoon(paid);
  }
  home_planner_->Ask(question.key, [this, peer](const CollectivePlan& plan) {
    if (peer == kThisDaemon) return OnPlan(plan);
    host_group_->Tell(peer, PlanMessage{host_group_->roster().key, plan});
  });
}

void PlanTable::OnPlan(const CollectivePlan& plan) {
  const auto found = plans_.find(plan.key);
  if (found == plans_.end()) return;  // no operation asked
  Version& first = found->second.versions.front();
  if (!first.record.plan.algorithm.empty()) return;  // known from a proposal
  first.record.plan = plan;
  if (!plan.status.ok()) return FailPlan(found->first, plan.status);
  if (host_group_->fabric() != nullptr) return MakeFirst(found->first);
  await_fabric_.insert(found->first);
  host_group_->TellHome(AskFabricMessage{host_group_->roster().fabric});
}

void PlanTable::Ensure(const CollectivePlan& plan) {
  plans_.try_emplace(plan.key);
  OnPlan(plan);
}

void PlanTable::OnFabric(const Status& status) {
  const std::set<PlanKey> waiting = std::exchange(await_fabric_, {});
  const bool pairs_wait = !std::exchange(pairs_await_fabric_, {}).empty();
  for (const PlanKey& key : waiting) {
    if (status.ok()) {
      MakeFirst(key);
    } else {
      FailPlan(key, status);
    }
  }
  if (!pairs_wait) return;
  if (!status.ok()) return host_group_->BreakSoon(NoPlan());
  communicator_->OnPlanReady();
}

// Returns an error if the home has given a host a number that the fabric does not have.
Status PlanTable::CheckFabric() const {
  for (const int host : host_group_->roster().fabric_hosts) {
    if (host < host_group_->fabric()->model->hosts()) continue;
    return InternalError("a host is number {} of a fabric of {}", host,
                         host_group_->fabric()->model->hosts());
  }
  return Status::Ok();
}

void PlanTable::FailPlan(const PlanKey& key, const Status& why) {
  const LogFor log_for(communicator_->tenant().identity);
  Log(LogLevel::kError, kLogTuning, "communicator {} '{}': no plan for {}: {}", communicator_->id(),
      communicator_->name(), CollectiveName(key.collective), why.message());
  plans_.at(key).failure = NoPlan();
  communicator_->OnPlanReady();
}

void PlanTable::MakeFirst(const PlanKey& key) {
  const auto done = [this, key](Result<std::unique_ptr<HostPlan>> made) {
    if (made.status().code() == Code::kRemoteError) return communicator_->Break(made.status());
    if (!made.ok()) return FailPlan(key, made.status());
    plans_.at(key).versions.front().plan = std::move(*made);
    if (control_ != nullptr) control_->NotePlan();
    communicator_->OnPlanReady();
  };
  Make(plans_.at(key).versions.front().record.plan, done);
}

void PlanTable::Make(const CollectivePlan& plan,
                     std::function<void(Result<std::unique_ptr<HostPlan>>)> done) {
  // `done` is called later in any case, since the caller is not ready for it.
  const auto fail = [&](const Status& why) { communicator_->CallSoon([done, why] { done(why); }); };
  if (host_group_->fabric() == nullptr) return fail(InternalError("the fabric is not known yet"));
  if (const Status good = CheckFabric(); !good.ok()) return fail(good);
  Problem problem{.collective = plan.key.collective,
                  .host_of_rank = FabricHostOfRank(),
                  .root = plan.key.root,
                  .in_place = true};
  const int host =
      host_group_->roster().fabric_hosts[static_cast<size_t>(host_group_->roster().self)];
  services_.background->Post(
      [loop = services_.loop, plan, host, models = host_group_->fabric()->rated, rates = rates_,
       problem = std::move(problem),
       finish = lifetime_.Guard([this, done](const std::shared_ptr<Result<HostPart>>& part) {
         if (!part->ok()) return done(part->status());
         Finish(std::move(**part), done);
       })] {
        auto part = std::make_shared<Result<HostPart>>(
            Caught([&] { return MakeHostPart(models.get(), problem, host, plan, rates); }));
        loop->Post([finish, part] { finish(part); });
      },
      communicator_->tenant().identity.number);
}

Result<HostPlan*> PlanTable::PairPlanFor(int rank, bool sends) {
  const int host = host_group_->roster().host_of_rank[static_cast<size_t>(rank)];
  const std::pair key(host, sends);
  if (host_group_->fabric() == nullptr) {
    if (pairs_await_fabric_.empty()) {
      host_group_->TellHome(AskFabricMessage{host_group_->roster().fabric});
    }
    pairs_await_fabric_.insert(key);
    return static_cast<HostPlan*>(nullptr);
  }
  const auto [found, first] = pairs_.try_emplace(key);
  if (!found->second.failure.ok()) return found->second.failure;
  if (!first) {
    if (found->second.plan != nullptr) DealAnew(found->second.plan.get());
    return found->second.plan.get();
  }
  if (const Status good = CheckFabric(); !good.ok()) {
    const LogFor log_for(communicator_->tenant().identity);
    Log(LogLevel::kError, kLogTuning, "communicator {}: {}", communicator_->id(), good.message());
    found->second.failure = NoPlan();
    host_group_->BreakSoon(NoPlan());  // the other side waits
    return NoPlan();
  }
  Result<HostPart> part = MakePairPart(
      host_group_->fabric()->rated.get(),
      host_group_->roster().fabric_hosts[static_cast<size_t>(host_group_->roster().self)],
      host_group_->roster().fabric_hosts[static_cast<size_t>(host)], sends, rates_);
  if (!part.ok()) {
    found->second.failure = NoPlan();
    host_group_->BreakSoon(NoPlan());
    return NoPlan();
  }
  // Finishes the plan later, since the caller is not ready for it.
  auto shared = std::make_shared<HostPart>(std::move(*part));
  communicator_->CallSoon([this, key, shared] {
    Finish(std::move(*shared), [this, key](Result<std::unique_ptr<HostPlan>> made) {
      if (made.status().code() == Code::kRemoteError) return communicator_->Break(made.status());
      PairEntry& entry = pairs_.at(key);
      if (made.ok()) {
        entry.plan = std::move(*made);
      } else {
        entry.failure = made.status();
      }
      communicator_->OnPlanReady();
    });
  });
  return static_cast<HostPlan*>(nullptr);
}

// Reaches the daemons that a plan exchanges messages with.
void PlanTable::Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done) {
  struct Reaching {
    HostPart part;
    std::function<void(Result<std::unique_ptr<HostPlan>>)> done;
    size_t missing = 0;
    Status failure;
  };
  auto reaching = std::make_shared<Reaching>();
  reaching->part = std::move(part);
  reaching->done = std::move(done);
  const std::vector<int> peers = reaching->part.peers;
  reaching->missing = peers.size() + 1;
  const auto one_less = [this, reaching](const Status& status) {
    if (!status.ok()) reaching->failure = status;
    if (--reaching->missing > 0) return;
    if (!reaching->failure.ok()) return reaching->done(reaching->failure);
    const KnownFabric& known = *host_group_->fabric();
    std::vector<transport::PeerId> by_fabric_host(static_cast<size_t>(known.model->hosts()), 0);
    for (int host = 0; host < host_group_->roster().hosts(); ++host) {
      const auto fabric_host =
          static_cast<size_t>(host_group_->roster().fabric_hosts[static_cast<size_t>(host)]);
      by_fabric_host[fabric_host] =
          host_group_->roster().peers[static_cast<size_t>(host)].value_or(kThisDaemon);
    }
    const bool own_rails = services_.fabrics->own() == host_group_->roster().fabric;
    auto plan = std::make_unique<HostPlan>(
        std::move(reaching->part), std::move(by_fabric_host), own_rails,
        [this]() -> const transport::TenantShare& { return share(); }, services_.cluster,
        services_.work);
    DealAnew(plan.get());  // rates may have changed meanwhile
    reaching->done(std::move(plan));
  };
  for (const int peer : peers) host_group_->ReachHost(HostOfFabricHost(peer), one_less);
  one_less(Status::Ok());
}

// ---------------------------------------------------------------------------------------------
// What links carry

void PlanTable::TellRates(const EdgeRates& rates) {
  const LinkRatesMessage message{host_group_->roster().key, rates};
  host_group_->TellHosts(message);
  host_group_->TellSelf(message);
}

// The messages of plans that are not in use are dealt out when they are asked for.
void PlanTable::OnRates(const EdgeRates& rates) {
  rates_ = rates;
  const auto deal_if_used = [this](const std::unique_ptr<HostPlan>& plan) {
    if (plan != nullptr && plan->in_use()) DealAnew(plan.get());
  };
  for (const auto& [key, entry] : plans_) {
    for (const Version& version : entry.versions) deal_if_used(version.plan);
  }
  for (const auto& [key, pair] : pairs_) deal_if_used(pair.plan);
}

void PlanTable::DealAnew(HostPlan* plan) {
  if (!plan->StartDealing(rates_)) return;
  services_.background->Post(
      [loop = services_.loop, rates = rates_, models = host_group_->fabric()->rated,
       deal = plan->deal(),
       finish = plan->lifetime().Guard(
           [plan](const EdgeRates& dealt_for, std::unique_ptr<RailTable> rails) {
             plan->Deal(dealt_for, std::move(rails));
           })] {
        const auto model = models->With(rates);
        if (!model.ok()) return;  // another daemon tells of links that are not there
        auto rails = std::make_shared<std::unique_ptr<RailTable>>(deal(**model));
        loop->Post([finish, rates, rails] { finish(rates, std::move(*rails)); });
      },
      communicator_->tenant().identity.number);
}

void PlanTable::CountOperation(const OperationDescriptor& descriptor, double seconds) {
  if (control_ != nullptr && control_->follows_terms()) control_->FollowTerms();
  const auto found = plans_.find(KeyFor(descriptor));
  if (found == plans_.end()) return;
  PlanEntry& entry = found->second;
  PlanRecord& record = entry.versions[VersionFor(entry.begin_at, descriptor.sequence)].record;
  ++record.operations;
  record.seconds += seconds;
  record.bytes += descriptor.count * DataTypeSize(descriptor.type);
}

double PlanTable::UsualSeconds(const OperationDescriptor& descriptor) const {
  const auto found = plans_.find(KeyFor(descriptor));
  if (found == plans_.end()) return 0;
  const PlanEntry& entry = found->second;
  const PlanRecord& record = entry.versions[VersionFor(entry.begin_at, descriptor.sequence)].record;
  if (record.operations < kUsualOperations) return 0;
  return record.seconds / static_cast<double>(record.operations);
}

std::vector<PlanRecord> PlanTable::Records() const {
  std::vector<const PlanRecord*> used;
  for (const auto& [key, entry] : plans_) {
    if (entry.versions.back().plan != nullptr) used.push_back(&entry.versions.back().record);
  }
  if (used.size() > kMostRecords) {
    const auto end = used.begin() + kMostRecords;
    std::nth_element(used.begin(), end, used.end(), [](const PlanRecord* a, const PlanRecord* b) {
      return a->seconds > b->seconds;
    });
    used.erase(end, used.end());
  }
  std::vector<PlanRecord> records;
  for (const PlanRecord* record : used) records.push_back(*record);
  return records;
}

// ---------------------------------------------------------------------------------------------
// Plans that change

const PlanRecord* PlanTable::Newest(const PlanKey& key) const {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  const PlanRecord& record = found->second.versions.back().record;
  return record.plan.algorithm.empty() ? nullptr : &record;
}

void PlanTable::AddVersion(uint64_t from, const CollectivePlan& plan,
                           std::unique_ptr<HostPlan> made) {
  PlanEntry& entry = plans_.at(plan.key);
  entry.begin_at.push_back(from);
  entry.versions.push_back({{.plan = plan}, std::move(made)});
  DropOldVersions(&entry);
}

// Drops versions by which no collective begins any more and none is under way. A version that has
// not been made stays, since its plan will be put there.
void PlanTable::DropOldVersions(PlanEntry* entry) {
  const size_t oldest = VersionFor(entry->begin_at, communicator_->collectives_begun());
  for (size_t version = oldest; version-- > 0;) {
    const HostPlan* const plan = entry->versions[version].plan.get();
    if (plan == nullptr || plan->in_use()) continue;
    entry->versions.erase(entry->versions.begin() + static_cast<std::ptrdiff_t>(version));
    entry->begin_at.erase(entry->begin_at.begin() + static_cast<std::ptrdiff_t>(version));
  }
  // The oldest version that is left serves all collectives before the next one.
  entry->begin_at.front() = 0;
}

}  // namespace harmonaize::daemon
