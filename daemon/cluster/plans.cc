#include "daemon/cluster/plans.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/span.h"
#include "daemon/communicator.h"
#include "daemon/engine.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// For tenants, who are to learn nothing of the fabric that plans are made on.
Status NoPlan() {
  return InternalError("no plan could be made for this operation; the provider's log says why");
}

}  // namespace

Plans::Plans(Engine* engine, Communicator* communicator, Span* span)
    : engine_(engine), communicator_(communicator), span_(span) {
  if (!span_->is_home()) return;
  desk_ = std::make_unique<PlanDesk>(
      engine_->config(), span_->fabric()->model, FabricHostOfRank(), &engine_->background(),
      [engine](std::function<void()> call) { engine->Post(std::move(call)); });
}

Plans::PlanKey Plans::KeyOf(const OperationDescriptor& descriptor) {
  const int root = HasRoot(descriptor.collective) ? descriptor.root : -1;
  const int size_class = SizeClassOf(descriptor.count * DataTypeSize(descriptor.type));
  return {static_cast<int>(descriptor.collective), root, size_class};
}

std::vector<int> Plans::FabricHostOfRank() const {
  std::vector<int> hosts;
  for (const int host : span_->roster().host_of_rank) {
    hosts.push_back(span_->roster().fabric_hosts[static_cast<size_t>(host)]);
  }
  return hosts;
}

int Plans::HostOfFabricHost(int fabric_host) const {
  const auto found = std::find(span_->roster().fabric_hosts.begin(),
                               span_->roster().fabric_hosts.end(), fabric_host);
  return static_cast<int>(found - span_->roster().fabric_hosts.begin());
}

Result<HostPlan*> Plans::PlanFor(const OperationDescriptor& descriptor) {
  const PlanKey key = KeyOf(descriptor);
  const auto [found, first] = plans_.try_emplace(key);
  const PlanEntry& entry = found->second;
  if (!entry.failure.ok()) return entry.failure;
  if (!first) return entry.plan.get();
  const auto [collective, root, size_class] = key;
  span_->TellHome(AskPlanMessage{span_->roster().key, collective, root, size_class});
  return entry.plan.get();
}

void Plans::OnAskPlan(transport::PeerId peer, const AskPlanMessage& question) {
  if (question.root >= communicator_->ranks()) {
    return engine_->cluster()->transport().Disconnect(peer, "a plan for a root that is no rank");
  }
  desk_->Ask(question, [this, peer](const PlanMessage& plan) {
    if (peer == 0) return OnPlan(plan);
    engine_->cluster()->Send(peer, plan);
  });
}

void Plans::OnPlan(const PlanMessage& plan) {
  const PlanKey key(plan.collective, plan.root, plan.size_class);
  const auto found = plans_.find(key);
  if (found == plans_.end() || found->second.plan != nullptr) return;  // nobody asked
  found->second.record.plan = plan;
  if (!plan.why.empty()) {
    return FailPlan(key, Status(Code::kInternalError, plan.why));
  }
  if (span_->fabric() != nullptr) return MakeInBackground(key);
  await_fabric_.insert(key);
  engine_->cluster()->Send(span_->roster().home, AskFabricMessage{span_->roster().fabric});
}

void Plans::OnFabric(const Status& status) {
  const std::set<PlanKey> waiting = std::exchange(await_fabric_, {});
  const bool pairs_wait = !std::exchange(pairs_await_fabric_, {}).empty();
  for (const PlanKey& key : waiting) {
    if (status.ok()) {
      MakeInBackground(key);
    } else {
      FailPlan(key, status);
    }
  }
  if (!pairs_wait) return;
  if (!status.ok()) return BreakSoon(NoPlan());
  communicator_->OnPlanReady();
}

// Whether the home has placed the hosts where there are some.
Status Plans::CheckFabric() const {
  for (const int host : span_->roster().fabric_hosts) {
    if (host < span_->fabric()->model->hosts()) continue;
    return InternalError("a host is number {} of a fabric of {}", host,
                         span_->fabric()->model->hosts());
  }
  return Status::Ok();
}

void Plans::FailPlan(const PlanKey& key, const Status& why) {
  Log(LogLevel::kError, kLogTuning, "communicator {} '{}': no plan for {}: {}", communicator_->id(),
      communicator_->name(), CollectiveName(static_cast<Collective>(std::get<0>(key))),
      why.message());
  plans_.at(key).failure = NoPlan();
  communicator_->OnPlanReady();
}

void Plans::BreakSoon(const Status& why) {
  engine_->Post([engine = engine_, id = communicator_->id(), why] {
    if (Communicator* const found = engine->membership().FindById(id)) found->Break(why);
  });
}

void Plans::MakeInBackground(const PlanKey& key) {
  if (const Status good = CheckFabric(); !good.ok()) return FailPlan(key, good);
  const PlanMessage& plan = plans_.at(key).record.plan;
  Problem problem{.collective = static_cast<Collective>(plan.collective),
                  .host_of_rank = FabricHostOfRank(),
                  .root = plan.root,
                  .in_place = true};
  const int host = span_->roster().fabric_hosts[static_cast<size_t>(span_->roster().self)];
  engine_->background().Post([engine = engine_, id = communicator_->id(), key, plan, host,
                              model = span_->fabric()->model, problem = std::move(problem)] {
    auto part = std::make_shared<Result<HostPart>>(MakeHostPart(*model, problem, host, plan));
    engine->Post([engine, id, key, part] {
      Communicator* const communicator = engine->membership().FindById(id);
      if (communicator == nullptr) return;
      Plans* const plans = &communicator->span()->plans();
      if (!part->ok()) return plans->FailPlan(key, part->status());
      plans->Finish(std::move(**part), [plans, key](Result<std::unique_ptr<HostPlan>> made) {
        PlanEntry& entry = plans->plans_.at(key);
        if (made.ok()) {
          entry.plan = std::move(*made);
        } else {
          entry.failure = made.status();
        }
        plans->communicator_->OnPlanReady();
      });
    });
  });
}

Result<HostPlan*> Plans::PairPlanFor(int rank, bool sends) {
  const int host = span_->roster().host_of_rank[static_cast<size_t>(rank)];
  const std::pair key(host, sends);
  if (span_->fabric() == nullptr) {
    if (pairs_await_fabric_.empty()) {
      engine_->cluster()->Send(span_->roster().home, AskFabricMessage{span_->roster().fabric});
    }
    pairs_await_fabric_.insert(key);
    return static_cast<HostPlan*>(nullptr);
  }
  const auto [found, first] = pairs_.try_emplace(key);
  if (!found->second.failure.ok()) return found->second.failure;
  if (!first) return found->second.plan.get();
  if (const Status good = CheckFabric(); !good.ok()) {
    Log(LogLevel::kError, kLogTuning, "communicator {}: {}", communicator_->id(), good.message());
    found->second.failure = NoPlan();
    BreakSoon(NoPlan());  // the other side waits
    return NoPlan();
  }
  HostPart part =
      MakePairPart(*span_->fabric()->model,
                   span_->roster().fabric_hosts[static_cast<size_t>(span_->roster().self)],
                   span_->roster().fabric_hosts[static_cast<size_t>(host)], sends);
  // Not from within this call: who asks is not ready to be told.
  auto shared = std::make_shared<HostPart>(std::move(part));
  engine_->Post([engine = engine_, id = communicator_->id(), key, shared] {
    Communicator* const communicator = engine->membership().FindById(id);
    if (communicator == nullptr) return;
    Plans* const plans = &communicator->span()->plans();
    plans->Finish(std::move(*shared), [plans, key](Result<std::unique_ptr<HostPlan>> made) {
      PairEntry& entry = plans->pairs_.at(key);
      if (made.ok()) {
        entry.plan = std::move(*made);
      } else {
        entry.failure = made.status();
      }
      plans->communicator_->OnPlanReady();
    });
  });
  return static_cast<HostPlan*>(nullptr);
}

// Reaches the daemons that a plan exchanges messages with.
void Plans::Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done) {
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
    const KnownFabric& known = *span_->fabric();
    std::vector<transport::PeerId> by_fabric_host(static_cast<size_t>(known.model->hosts()), 0);
    for (int host = 0; host < span_->roster().hosts(); ++host) {
      const auto fabric_host =
          static_cast<size_t>(span_->roster().fabric_hosts[static_cast<size_t>(host)]);
      by_fabric_host[fabric_host] = span_->roster().peers[static_cast<size_t>(host)];
    }
    const bool own_rails = engine_->own_fabric() == span_->roster().fabric;
    reaching->done(std::make_unique<HostPlan>(std::move(reaching->part), std::move(by_fabric_host),
                                              own_rails, engine_->cluster(), &engine_->executor()));
  };
  for (const int peer : peers) span_->ReachHost(HostOfFabricHost(peer), one_less);
  one_less(Status::Ok());
}

void Plans::CountOperation(const OperationDescriptor& descriptor, double seconds) {
  const auto found = plans_.find(KeyOf(descriptor));
  if (found == plans_.end()) return;
  PlanRecord& record = found->second.record;
  ++record.operations;
  record.seconds += seconds;
  record.bytes += descriptor.count * DataTypeSize(descriptor.type);
}

std::vector<PlanRecord> Plans::Records() const {
  std::vector<PlanRecord> records;
  for (const auto& [key, entry] : plans_) {
    if (entry.plan != nullptr) records.push_back(entry.record);
  }
  return records;
}

}  // namespace harmonaize::daemon
