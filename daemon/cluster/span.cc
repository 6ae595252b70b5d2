#include "daemon/cluster/span.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator.h"
#include "daemon/engine.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

// SplitMix64 (Steele, Lea, Flood, 2014), one step: names of operations are spread over all numbers,
// so that those of different communicators meet once in some billion years.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Span::Span(Engine* engine, Communicator* communicator, Roster roster)
    : engine_(engine), communicator_(communicator), roster_(std::move(roster)) {
  if (!is_home()) return;
  agreement_ =
      std::make_unique<Agreement>(roster_.hosts(), [this](int host) { return HasLeft(host); });
  plan_desk_ = std::make_unique<PlanDesk>(
      engine_->config().plans, engine_->fabrics().Find(roster_.fabric)->model, FabricHostOfRank(),
      &engine_->background(),
      [engine](std::function<void()> call) { engine->Post(std::move(call)); });
}

Span::~Span() = default;

// ---------------------------------------------------------------------------------------------
// Plans

const KnownFabric* Span::fabric() const {
  return engine_->fabrics().Find(roster_.fabric);
}

std::vector<int> Span::FabricHostOfRank() const {
  std::vector<int> hosts;
  for (const int host : roster_.host_of_rank) {
    hosts.push_back(roster_.fabric_hosts[static_cast<size_t>(host)]);
  }
  return hosts;
}

int Span::HostOfFabricHost(int fabric_host) const {
  const auto found =
      std::find(roster_.fabric_hosts.begin(), roster_.fabric_hosts.end(), fabric_host);
  return static_cast<int>(found - roster_.fabric_hosts.begin());
}

Result<HostPlan*> Span::PlanFor(const OperationDescriptor& descriptor) {
  const int root = HasRoot(descriptor.collective) ? descriptor.root : -1;
  const int size_class = SizeClassOf(descriptor.count * DataTypeSize(descriptor.type));
  const PlanKey key(static_cast<int>(descriptor.collective), root, size_class);
  const auto [found, first] = plans_.try_emplace(key);
  const PlanEntry& entry = found->second;
  if (!entry.failure.ok()) return entry.failure;
  if (!first) return entry.plan.get();
  const AskPlanMessage question{roster_.key, std::get<0>(key), root, size_class};
  if (is_home()) {
    OnAskPlan(0, question);
  } else {
    engine_->cluster()->Send(roster_.home, question);
  }
  return entry.plan.get();
}

void Span::OnAskPlan(transport::PeerId peer, const AskPlanMessage& question) {
  plan_desk_->Ask(question, [this, peer](const PlanMessage& plan) {
    if (peer == 0) return OnPlan(plan);
    engine_->cluster()->Send(peer, plan);
  });
}

void Span::OnPlan(const PlanMessage& plan) {
  const PlanKey key(plan.collective, plan.root, plan.size_class);
  const auto found = plans_.find(key);
  if (found == plans_.end() || found->second.plan != nullptr) return;  // nobody asked
  found->second.record.plan = plan;
  if (!plan.why.empty()) {
    found->second.failure = InternalError("there is no plan: {}", plan.why);
    return communicator_->OnPlanReady();
  }
  if (fabric() != nullptr) return MakeInBackground(key);
  await_fabric_.insert(key);
  engine_->cluster()->Send(roster_.home, AskFabricMessage{roster_.fabric});
}

void Span::OnFabric() {
  if (fabric() == nullptr) return;
  for (const PlanKey& key : std::exchange(await_fabric_, {})) MakeInBackground(key);
  if (!std::exchange(pairs_await_fabric_, {}).empty()) communicator_->OnPlanReady();
}

void Span::MakeInBackground(const PlanKey& key) {
  const PlanMessage& plan = plans_.at(key).record.plan;
  Problem problem{.collective = static_cast<Collective>(plan.collective),
                  .host_of_rank = FabricHostOfRank(),
                  .root = plan.root,
                  .in_place = true};
  const int host = roster_.fabric_hosts[static_cast<size_t>(roster_.self)];
  engine_->background().Post([engine = engine_, id = communicator_->id(), key, plan, host,
                              model = fabric()->model, problem = std::move(problem)] {
    auto part = std::make_shared<Result<HostPart>>(MakeHostPart(*model, problem, host, plan));
    engine->Post([engine, id, key, part] {
      Communicator* const communicator = engine->membership().FindById(id);
      if (communicator == nullptr) return;
      Span* const span = communicator->span();
      if (!part->ok()) {
        span->plans_.at(key).failure = part->status();
        return communicator->OnPlanReady();
      }
      span->Finish(std::move(**part), [span, key](Result<std::unique_ptr<HostPlan>> made) {
        PlanEntry& entry = span->plans_.at(key);
        if (made.ok()) {
          entry.plan = std::move(*made);
        } else {
          entry.failure = made.status();
        }
        span->communicator_->OnPlanReady();
      });
    });
  });
}

Result<HostPlan*> Span::PairPlanFor(int rank, bool sends) {
  const int host = roster_.host_of_rank[static_cast<size_t>(rank)];
  const std::pair key(host, sends);
  if (fabric() == nullptr) {
    if (pairs_await_fabric_.empty()) {
      engine_->cluster()->Send(roster_.home, AskFabricMessage{roster_.fabric});
    }
    pairs_await_fabric_.insert(key);
    return static_cast<HostPlan*>(nullptr);
  }
  const auto [found, first] = pairs_.try_emplace(key);
  if (!found->second.failure.ok()) return found->second.failure;
  if (!first) return found->second.plan.get();
  HostPart part =
      MakePairPart(*fabric()->model, roster_.fabric_hosts[static_cast<size_t>(roster_.self)],
                   roster_.fabric_hosts[static_cast<size_t>(host)], sends);
  // Not from within this call: who asks is not ready to be told.
  auto shared = std::make_shared<HostPart>(std::move(part));
  engine_->Post([engine = engine_, id = communicator_->id(), key, shared] {
    Communicator* const communicator = engine->membership().FindById(id);
    if (communicator == nullptr) return;
    Span* const span = communicator->span();
    span->Finish(std::move(*shared), [span, key](Result<std::unique_ptr<HostPlan>> made) {
      PairEntry& entry = span->pairs_.at(key);
      if (made.ok()) {
        entry.plan = std::move(*made);
      } else {
        entry.failure = made.status();
      }
      span->communicator_->OnPlanReady();
    });
  });
  return static_cast<HostPlan*>(nullptr);
}

// Reaches the daemons that a plan exchanges messages with.
void Span::Finish(HostPart part, std::function<void(Result<std::unique_ptr<HostPlan>>)> done) {
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
    const KnownFabric& known = *fabric();
    std::vector<transport::PeerId> by_fabric_host(static_cast<size_t>(known.model->hosts()), 0);
    for (int host = 0; host < roster_.hosts(); ++host) {
      const auto fabric_host = static_cast<size_t>(roster_.fabric_hosts[static_cast<size_t>(host)]);
      by_fabric_host[fabric_host] = roster_.peers[static_cast<size_t>(host)];
    }
    const bool own_rails = engine_->own_fabric() == roster_.fabric;
    reaching->done(std::make_unique<HostPlan>(std::move(reaching->part), std::move(by_fabric_host),
                                              own_rails, engine_->cluster(), &engine_->executor()));
  };
  for (const int peer : peers) ReachHost(HostOfFabricHost(peer), one_less);
  one_less(Status::Ok());
}

void Span::ReachHost(int host, std::function<void(const Status&)> done) {
  const auto place = static_cast<size_t>(host);
  if (roster_.peers[place] != 0) return done(Status::Ok());
  engine_->cluster()->Reach(
      roster_.addresses[place], [engine = engine_, id = communicator_->id(), host,
                                 done](const Result<transport::PeerId>& peer) {
        Communicator* const communicator = engine->membership().FindById(id);
        if (communicator == nullptr) return;
        Span* const span = communicator->span();
        if (peer.ok()) {
          span->roster_.peers[static_cast<size_t>(host)] = *peer;
          return done(Status::Ok());
        }
        const Status why = RemoteError("{}: {}", span->roster_.RanksOf(host),
                                       "their host's daemon cannot be reached");
        communicator->Break(why);
        done(why);
      });
}

void Span::CountOperation(const OperationDescriptor& descriptor, double seconds) {
  const int root = HasRoot(descriptor.collective) ? descriptor.root : -1;
  const uint64_t bytes = descriptor.count * DataTypeSize(descriptor.type);
  const auto found =
      plans_.find({static_cast<int>(descriptor.collective), root, SizeClassOf(bytes)});
  if (found == plans_.end()) return;
  PlanRecord& record = found->second.record;
  ++record.operations;
  record.seconds += seconds;
  record.bytes += bytes;
}

std::vector<PlanRecord> Span::Plans() const {
  std::vector<PlanRecord> records;
  for (const auto& [key, entry] : plans_) {
    if (entry.plan != nullptr) records.push_back(entry.record);
  }
  return records;
}

// ---------------------------------------------------------------------------------------------
// Names

uint64_t Span::CollectiveNumber(uint64_t key, uint64_t sequence) {
  return Mix(Mix(key) ^ sequence);
}

uint64_t Span::PairNumber(uint64_t key, int from, int to, uint64_t number) {
  const uint64_t pair = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
  return Mix(Mix(Mix(key + 1) ^ pair) ^ number);
}

void Span::Forget(uint64_t number) {
  for (const transport::PeerId peer : roster_.peers) {
    if (peer != 0) engine_->cluster()->transport().Cancel(peer, number);
  }
}

// ---------------------------------------------------------------------------------------------
// What is said

// What the home tells itself comes later, as it does to all others: never from within what it is
// about to do.
void Span::TellHome(const ClusterMessage& message) {
  if (!is_home()) return engine_->cluster()->Send(roster_.home, message);
  engine_->Post([engine = engine_, message] { engine->membership().OnMessage(0, message); });
}

void Span::TellHosts(const ClusterMessage& message, int except) {
  for (int host = 0; host < roster_.hosts(); ++host) {
    const transport::PeerId peer = roster_.peers[static_cast<size_t>(host)];
    if (peer != 0 && host != except) engine_->cluster()->Send(peer, message);
  }
}

void Span::TellHostOf(int rank, const ClusterMessage& message) {
  const int host = roster_.host_of_rank[static_cast<size_t>(rank)];
  ReachHost(host, [this, host, message](const Status& reached) {
    if (reached.ok()) {
      engine_->cluster()->Send(roster_.peers[static_cast<size_t>(host)], message);
    }
  });
}

void Span::TellReached(const ClusterMessage& message) {
  TellHosts(message);
}

bool Span::HasLeft(int host) const {
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (roster_.host_of_rank[static_cast<size_t>(rank)] == host && !communicator_->HasLeft(rank)) {
      return false;
    }
  }
  return true;
}

void Span::OnProgress(int host, const ProgressMessage& progress) {
  ActOn(progress.sequence, agreement_->Take(host, progress, MonotonicNanoseconds()));
}

void Span::ActOn(uint64_t sequence, const Agreement::Outcome& outcome) {
  for (const int host : outcome.ask) {
    const AskProgressMessage question{roster_.key, sequence};
    if (host == roster_.self) {
      communicator_->TellProgress(sequence);
    } else {
      engine_->cluster()->Send(roster_.peers[static_cast<size_t>(host)], question);
    }
  }
  if (!outcome.breaks.ok()) return communicator_->Break(outcome.breaks);
  if (outcome.verdict.ok()) return;
  TellHosts(VerdictMessage{roster_.key, sequence, static_cast<int>(outcome.verdict.code()),
                           outcome.verdict.message()});
  communicator_->OnVerdict(sequence, outcome.verdict);
}

void Span::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  if (!is_home()) return;
  for (const Agreement::LateOperation& late : agreement_->Late(now_ns, late_after_ns)) {
    TellHosts(LateMessage{roster_.key, late.sequence, late.notice});
    communicator_->OnLate(late.sequence, late.notice);
    ActOn(late.sequence, {.ask = late.ask, .verdict = {}, .breaks = {}});
  }
}

}  // namespace harmonaize::daemon
