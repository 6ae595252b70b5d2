#include "daemon/cluster/span.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator.h"
#include "daemon/engine.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// The transport remembers as many operations that were cancelled.
constexpr uint64_t kMostDropped = 4096;

/// For tenants, who are to learn nothing of the fabric that plans are made on.
Status NoPlan() {
  return InternalError("no plan could be made for this operation; the provider's log says why");
}

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
  consent_ = std::make_unique<Consent>(roster_.hosts());
  plan_desk_ = std::make_unique<PlanDesk>(
      engine_->config(), engine_->fabrics().Find(roster_.fabric)->model, FabricHostOfRank(),
      &engine_->background(),
      [engine](std::function<void()> call) { engine->Post(std::move(call)); });
}

Span::~Span() {
  engine_->DropWaiting(counted_cases_ + (untold_counted_ ? 1 : 0));
}

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
  TellHome(question);
  return entry.plan.get();
}

void Span::OnAskPlan(transport::PeerId peer, const AskPlanMessage& question) {
  if (question.root >= communicator_->ranks()) {
    return engine_->cluster()->transport().Disconnect(peer, "a plan for a root that is no rank");
  }
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
    return FailPlan(key, Status(Code::kInternalError, plan.why));
  }
  if (fabric() != nullptr) return MakeInBackground(key);
  await_fabric_.insert(key);
  engine_->cluster()->Send(roster_.home, AskFabricMessage{roster_.fabric});
}

void Span::OnFabric(const Status& status) {
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
Status Span::CheckFabric() const {
  for (const int host : roster_.fabric_hosts) {
    if (host < fabric()->model->hosts()) continue;
    return InternalError("a host is number {} of a fabric of {}", host, fabric()->model->hosts());
  }
  return Status::Ok();
}

void Span::FailPlan(const PlanKey& key, const Status& why) {
  Log(LogLevel::kError, kLogTuning, "communicator {} '{}': no plan for {}: {}", communicator_->id(),
      communicator_->name(), CollectiveName(static_cast<Collective>(std::get<0>(key))),
      why.message());
  plans_.at(key).failure = NoPlan();
  communicator_->OnPlanReady();
}

void Span::BreakSoon(const Status& why) {
  engine_->Post([engine = engine_, id = communicator_->id(), why] {
    if (Communicator* const found = engine->membership().FindById(id)) found->Break(why);
  });
}

void Span::MakeInBackground(const PlanKey& key) {
  if (const Status good = CheckFabric(); !good.ok()) return FailPlan(key, good);
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
      if (!part->ok()) return span->FailPlan(key, part->status());
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
  if (const Status good = CheckFabric(); !good.ok()) {
    Log(LogLevel::kError, kLogTuning, "communicator {}: {}", communicator_->id(), good.message());
    found->second.failure = NoPlan();
    BreakSoon(NoPlan());  // the other side waits
    return NoPlan();
  }
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

void Span::DropCollectives(transport::Transport* transport, transport::PeerId peer, uint64_t key,
                           uint64_t first, uint64_t begun) {
  // The oldest are dropped, and of a number that cannot be not all are gone through.
  for (uint64_t i = 0; i < kMostDropped && first + i < begun; ++i) {
    transport->Cancel(peer, CollectiveNumber(key, first + i));
  }
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

void Span::TellLeft(const LeftMessage& left) {
  if (is_home() || engine_->cluster()->Linked(roster_.home)) return TellHome(left);
  TellReached(left);
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

void Span::EndFrom(uint64_t sequence) {
  if (sequence == 0) awaited_consent_.Clear();
  CountUntold();
  if (!is_home()) return;
  agreement_->EndFrom(sequence);
  consent_->EndFrom(sequence);
  CountOpenCases();
  // Later: who calls is about to change what is looked at.
  engine_->Post([engine = engine_, id = communicator_->id()] {
    if (Communicator* const found = engine->membership().FindById(id)) found->span()->LookAgain();
  });
}

void Span::NoteBegun(const BegunCollective& begun, bool asks) {
  awaited_consent_.Begin(begun);
  if (asks || awaited_consent_.due()) return TellBegun(asks);
  CountUntold();
}

void Span::TellBegun(bool asks) {
  if (awaited_consent_.anything_to_tell()) {
    TellHome(BegunMessage{roster_.key, awaited_consent_.TakeUntold(), asks});
  }
  CountUntold();
}

void Span::OnBegun(int host, const BegunMessage& message) {
  std::vector<uint64_t> disagreed;
  for (const BegunCollective& one : message.begun) {
    const Consent::Outcome outcome = consent_->Take(host, one);
    if (outcome == Consent::Outcome::kDisagree) disagreed.push_back(one.sequence);
  }
  if (message.asks && !message.begun.empty()) consent_->Ask(host, message.begun.back().sequence);
  const AgreedMessage agreed{roster_.key, consent_->agreed()};
  for (const int listener : consent_->TakeListeners()) {
    if (listener == roster_.self) {
      communicator_->OnAgreed(agreed.sequence);
    } else {
      engine_->cluster()->Send(roster_.peers[static_cast<size_t>(listener)], agreed);
    }
  }
  for (const uint64_t sequence : disagreed) {
    // What each asks for, in words, is the agreement's to put together.
    std::vector<int> all;
    for (int each = 0; each < roster_.hosts(); ++each) all.push_back(each);
    ActOn(sequence, {.ask = std::move(all), .verdict = {}, .breaks = {}});
  }
}

// While there is something to tell the engine has to come by, whether or not anybody waits.
void Span::CountUntold() {
  const bool untold = awaited_consent_.anything_to_tell();
  if (untold == untold_counted_) return;
  untold_counted_ = untold;
  untold ? engine_->AddWaiting() : engine_->DropWaiting(1);
}

// A host may be gone for whose word others have waited.
void Span::LookAgain() {
  for (const auto& [sequence, outcome] : agreement_->LookAgain()) ActOn(sequence, outcome);
  CountOpenCases();
}

// While anything is not decided the engine has to look for late ranks, whether or not one of this
// host waits.
void Span::CountOpenCases() {
  const size_t open = agreement_->open();
  for (; counted_cases_ < open; ++counted_cases_) engine_->AddWaiting();
  engine_->DropWaiting(counted_cases_ - open);
  counted_cases_ = open;
}

bool Span::NotePeer(int rank, transport::PeerId peer) {
  transport::PeerId& known =
      roster_.peers[static_cast<size_t>(roster_.host_of_rank[static_cast<size_t>(rank)])];
  if (known == 0) known = peer;
  return known == peer;
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
  CountOpenCases();
  if (!outcome.breaks.ok()) return communicator_->Break(outcome.breaks);
  if (outcome.verdict.ok()) return;
  consent_->Forget(sequence);
  TellHosts(VerdictMessage{roster_.key, sequence, static_cast<int>(outcome.verdict.code()),
                           outcome.verdict.message()});
  communicator_->OnVerdict(sequence, outcome.verdict);
}

void Span::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  TellBegun();
  if (!is_home()) return;
  for (const Agreement::LateOperation& late : agreement_->Late(now_ns, late_after_ns)) {
    ActOn(late.sequence, {.ask = late.ask, .verdict = {}, .breaks = {}});
    if (late.notice.empty()) continue;
    const LateMessage message{roster_.key, late.sequence, late.notice, late.missing};
    TellHosts(message);
    communicator_->OnLate(message);
  }
}

}  // namespace harmonaize::daemon
