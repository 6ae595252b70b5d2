#include "daemon/communicator/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/host/host_tuning.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/host_services.h"
#include "daemon/multihost/remote_pairs.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/sharing/start_gate.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/executor/host/work_engine.h"

namespace harmonaize::daemon {
namespace {

/// Of so many collectives in a row the first two are timed, for CheckPrediction. Reading the clock
/// and predicting take a tenth of a microsecond, a twentieth of the smallest operations.
constexpr uint64_t kCollectivesPerCheck = 64;

/// What a communicator takes of the daemon's memory, in bytes: itself, and for each rank its places
/// in lists.
constexpr int64_t kCommunicatorBytes = 4096;
constexpr int64_t kRankOfCommunicatorBytes = 64;

/// Collectives that begin in one go, before the engine looks at other tenants' work.
constexpr int kLaunchedAtOnce = 64;

/// For so many pairs of ranks that wait a communicator is charged at once.
constexpr size_t kPairsPaidAtOnce = 64;

/// Whether a rank of it has its result where its data was.
bool IsInPlace(const MatchedOperation& operation) {
  return std::any_of(
      operation.parts.begin(), operation.parts.end(),
      [](const PostedOperation* part) { return part->send.SamePlace(part->receive); });
}

}  // namespace

Result<CommunicatorHoldings> PayForCommunicator(Account& account, size_t ranks) {
  HZ_ASSIGN_OR_RETURN(Holding place, account.Take(Resource::kCommunicators, 1));
  HZ_ASSIGN_OR_RETURN(
      Holding memory,
      account.Take(Resource::kMemory,
                   kCommunicatorBytes + kRankOfCommunicatorBytes * static_cast<int64_t>(ranks)));
  return CommunicatorHoldings{std::move(place), std::move(memory)};
}

Communicator::Communicator(const CommunicatorServices& services, const HostServices& hosts,
                           uint64_t id, std::string name, Tenant* tenant,
                           std::vector<Member*> members, std::optional<Roster> roster)
    : services_(services),
      hosts_(hosts),
      observers_(*services.observers),
      id_(id),
      name_(std::move(name)),
      tenant_(tenant),
      members_(std::move(members)),
      left_after_(members_.size(), kStays),
      pool_(this, [this](int64_t bytes) { return holdings_.memory.Add(bytes); }),
      plans_(std::make_shared<OneHostPlans>(
          ranks(), OneHostPlans::Means{
                       .background = services.background,
                       .tenant = tenant->identity.number,
                       .post = [loop = services.loop](
                                   std::function<void()> call) { loop->Post(std::move(call)); },
                       .pay = [this](int64_t bytes) { return holdings_.memory.Add(bytes); }})) {
  for (const Member* member : members_) {
    place_of_rank_.push_back(local_ranks_);
    if (member != nullptr) ++local_ranks_;
  }
  if (!roster.has_value()) return;
  host_group_ = std::make_unique<HostGroup>(hosts, this, *std::move(roster));
  remote_pairs_ = std::make_unique<RemotePairs>(this, host_group_.get());
}

Communicator::~Communicator() = default;

// ---------------------------------------------------------------------------------------------
// Matching

void Communicator::Post(PostedOperation* part) {
  if (state_ != State::kReady) {
    part->outcome = failure_;
  } else if (IsPointToPoint(part->descriptor.collective)) {
    PostPair(part);
  } else {
    PostCollective(part);
  }
}

void Communicator::PostCollective(PostedOperation* part) {
  const uint64_t sequence = part->descriptor.sequence;
  const auto absent = std::find_if(left_after_.begin(), left_after_.end(),
                                   [&](uint64_t after) { return after <= sequence; });
  if (absent != left_after_.end()) {
    part->outcome = RemoteError("rank {} has left the communicator",
                                static_cast<int>(absent - left_after_.begin()));
    return;
  }
  MatchedOperation*& operation = window_.At(sequence);
  if (operation == nullptr) {
    MatchedOperation* const made = NewOperation(local_ranks_);
    if (made == nullptr) {
      part->outcome = failure_;
      return;
    }
    operation = made;
    operation->sequence = sequence;
    operation->first_arrival_ns = part->arrived_ns;
    operation->waiting = WaitingHold(*services_.waiting);
    if (const auto early = early_verdicts_.find(sequence); early != early_verdicts_.end()) {
      operation->verdict = early->second;
      operation->told = true;
      early_verdicts_.erase(early);
    }
  }
  operation->parts[PlaceOf(*part)] = part;
  ++operation->arrived;
  part->matched = operation;
}

void Communicator::PostPair(PostedOperation* part) {
  const int peer = part->descriptor.root;
  // A part without its buffer is matched all the same, so that its peer is told.
  if (peer < 0 || peer >= ranks()) {
    part->outcome = part->invalid;
    return;
  }
  if (IsRemote(peer)) {
    part->crosses_hosts = true;
    part->waiting = WaitingHold(*services_.waiting);
    return remote_pairs_->Post(part);
  }
  if (member(peer) == nullptr) {
    part->outcome = RemoteError("rank {} has left the communicator", peer);
    return;
  }
  if (!PayForPair()) {
    part->outcome = failure_;
    return;
  }
  part->waiting = WaitingHold(*services_.waiting);
  const std::optional<PairMatcher::Match> match = pairs_.Add(part);
  if (!match.has_value()) return;

  MatchedOperation* operation = NewOperation(2);
  if (operation == nullptr) return Doom({}, {match->send, match->receive}, failure_);
  operation->parts[0] = match->send;
  operation->parts[1] = match->receive;
  operation->arrived = 2;
  operation->first_arrival_ns = part->arrived_ns;
  for (PostedOperation* half : operation->parts) {
    half->matched = operation;
    half->waiting.Reset();
    operation->ready += half->ready ? 1 : 0;
  }
  // The half that came last is not ready yet, so OnReady launches.
  matched_pairs_.Add(operation);
}

// One more pair of ranks may wait from now on; or the communicator is broken.
bool Communicator::PayForPair() {
  if (pairs_.pairs() < paid_pairs_) return true;
  const Status paid =
      holdings_.memory.Add(static_cast<int64_t>(kPairsPaidAtOnce * PairMatcher::kPairBytes));
  if (paid.ok()) {
    paid_pairs_ += kPairsPaidAtOnce;
  } else {
    Break(paid);
  }
  return paid.ok();
}

void Communicator::OnReady(PostedOperation* part) {
  part->ready = true;
  if (part->ready_ns == 0) part->ready_ns = MonotonicNanoseconds();
  if (!part->outcome.ok()) {
    const Status outcome = part->outcome;
    services_.finished->Finish(part, outcome);
    return;
  }
  if (part->crosses_hosts) return remote_pairs_->OnReady(part);
  MatchedOperation* operation = part->matched;
  if (operation == nullptr) return;  // half of a pair, alone so far
  if (operation->doomed) return;     // it is told soon
  ++operation->ready;
  if (!IsPointToPoint(part->descriptor.collective)) {
    LaunchReady();
  } else if (operation->ready == 2) {
    matched_pairs_.Remove(operation);
    Launch(operation);
  }
}

// Collectives start in the order of their sequence numbers, on every rank the same.
void Communicator::LaunchReady() {
  const auto all = static_cast<int>(local_ranks_);
  int launched = 0;
  while (window_.front() != nullptr && window_.front()->arrived == all &&
         window_.front()->ready == all) {
    if (++launched > kLaunchedAtOnce) return LaunchLater();
    MatchedOperation* operation = window_.front();
    // Until OnPlanReady.
    if (host_group_ != nullptr && !hosts_.start_gate->MayBegin(*this)) return;
    if (host_group_ != nullptr && !Prepare(operation)) return;
    // Until OnPlanMade.
    if (host_group_ == nullptr && !PlanIsMade(*operation)) return;
    window_.PopFront();
    operation->waiting.Reset();
    if (operation->next_report_ns != 0) {
      observers_.Tell(&CommunicatorObserver::OnRecovered, *this);
    }
    Launch(operation);
  }
}

// A tenant may have thousands that wait for one.
void Communicator::LaunchLater() {
  if (std::exchange(launch_posted_, true)) return;
  CallSoon([this] {
    launch_posted_ = false;
    LaunchReady();
  });
}

void Communicator::CallSoon(std::function<void()> call) {
  services_.loop->Post(lifetime_.Guard(std::move(call)));
}

void Communicator::GiveUp(const Status& exception) {
  const LogFor log_for(tenant_->identity);
  LogException("an operation", exception);
  for (const Member* member : members_) {
    if (member != nullptr)
      services_.sessions->CutOffSoon(member->session->id(), exception.message());
  }
}

// ---------------------------------------------------------------------------------------------
// Execution

void Communicator::Launch(MatchedOperation* operation) {
  Status status = operation->verdict.ok() ? CheckAgreement(*operation) : operation->verdict;
  if (!status.ok()) {
    if (host_group_ != nullptr) NoteEnd(*operation, status);
    FailMatched(operation, status);
    return;
  }
  const bool crosses_hosts =
      host_group_ != nullptr && !IsPointToPoint(operation->parts.front()->descriptor.collective);
  WarnOfTypes(*operation);
  if (operation->parts.front()->descriptor.count == 0) {
    if (crosses_hosts) return EndHere(operation);
    in_flight_.Add(operation);
    Complete(operation);
    return;
  }
  if (crosses_hosts) {
    status = StartNetwork(operation);
    if (!status.ok()) {
      NoteEnd(*operation, status);
      FailMatched(operation, status);
    }
    return;
  }
  Bind(operation, &status);
  if (!status.ok()) {
    FailMatched(operation, status);
    return;
  }
  in_flight_.Add(operation);
  services_.work->Start(&operation->execution);
}

Status Communicator::CheckAgreement(const MatchedOperation& operation) const {
  const PostedOperation& first = *operation.parts.front();
  bool agree = true;
  for (const PostedOperation* part : operation.parts) {
    if (!part->invalid.ok()) {
      return Status(part->invalid.code(),
                    fmt::format("{}: {}", NameOf(part->descriptor, part->member->rank),
                                part->invalid.message()));
    }
    agree = agree && Agree(first.descriptor, part->descriptor);
  }
  if (agree) return Status::Ok();
  std::vector<std::string> requests;
  for (const PostedOperation* part : operation.parts) {
    requests.push_back(
        fmt::format("rank {} asked for {}", part->member->rank, RequestOf(part->descriptor)));
  }
  return InvalidUsage("the ranks disagree about operation #{}: {}", operation.sequence,
                      fmt::join(requests, "; "));
}

// A send and its receive may differ in type if they have equally many bytes; their processes are
// warned.
void Communicator::WarnOfTypes(const MatchedOperation& operation) {
  const PostedOperation& send = *operation.parts.front();
  const PostedOperation& receive = *operation.parts.back();
  if (send.descriptor.type == receive.descriptor.type) return;
  const std::string warning =
      DifferentTypes(send.descriptor, send.member->rank, receive.descriptor, receive.member->rank);
  for (PostedOperation* part : operation.parts) WarnOnce(part, warning);
}

void Communicator::WarnOnce(PostedOperation* part, const std::string& warning) {
  if (std::exchange(part->member->session->told_of_types, true)) return;
  Notify({part}, warning);
}

void Communicator::Bind(MatchedOperation* operation, Status* status) {
  const OperationDescriptor& descriptor = operation->parts.front()->descriptor;
  operation->inputs.clear();
  operation->outputs.clear();
  operation->scalars.clear();
  for (const PostedOperation* part : operation->parts) {
    operation->inputs.push_back(part->send);
    operation->outputs.push_back(part->receive);
    operation->scalars.push_back(part->descriptor.scalar);
  }
  const Schedule* plan = nullptr;
  plans_->With(descriptor.collective, descriptor.root, IsInPlace(*operation),
               [&](const Result<const Schedule*>& made) {
                 if (made.ok()) plan = *made;
                 *status = made.status();
               });
  if (!status->ok()) return;

  Binding binding;
  binding.program = &plan->programs.front();
  binding.pieces = plan->pieces;
  binding.type = descriptor.type;
  binding.op = descriptor.op;
  binding.count = descriptor.count;
  binding.inputs = operation->inputs;
  binding.outputs = operation->outputs;
  binding.scalars = operation->scalars;
  binding.divisor = static_cast<uint64_t>(ranks());
  binding.tenant = tenant_->identity.number;
  binding.weight = static_cast<float>(tenant_->weight);
  binding.helpable = true;
  binding.whole = true;
  binding.shared = services_.work->shared();
  binding.node = NodeOf(*operation);
  operation->execution.cookie = operation;
  operation->execution.on_finished = &OnExecuted;
  *status = operation->execution.Bind(binding, services_.work->machine());
}

// The node on which all registered buffers lie; -1 where they do not agree, or some are elsewhere.
int Communicator::NodeOf(const MatchedOperation& operation) {
  int node = -1;
  for (const PostedOperation* part : operation.parts) {
    const std::pair<const Buffer&, const Region*> buffers[] = {
        {part->send, part->send_region}, {part->receive, part->receive_region}};
    for (const auto& [buffer, region] : buffers) {
      if (!buffer.is_mapped()) continue;  // not used
      if (region->node() < 0) return -1;
      if (node >= 0 && node != region->node()) return -1;
      node = region->node();
    }
  }
  return node;
}

Result<InlineSegment*> Communicator::Inline() {
  const InlineConfig& config = services_.config->inline_path;
  const bool possible = config.enabled && host_group_ == nullptr && ranks() <= kMaxInlineRanks;
  if (inline_segment_ == nullptr && possible) {
    const InlineLimits limits =
        InlineLimitsFor(config, services_.tuning->Choice(services_.work->machine()), ranks());
    HZ_ASSIGN_OR_RETURN(inline_segment_,
                        InlineSegment::Create(ranks(), limits, services_.work->machine()));
    const bool all_here = std::find(members_.begin(), members_.end(), nullptr) == members_.end();
    if (state_ != State::kReady || !all_here) inline_segment_->Close();
  }
  return inline_segment_.get();
}

// Whether the operation may be launched: otherwise LaunchReady is called again when it may.
bool Communicator::PlanIsMade(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  if (!plans_->made_in_background() || descriptor.count == 0) return true;
  const Collective collective = descriptor.collective;
  const bool in_place = IsInPlace(operation);
  if (plans_->IsMade(collective, descriptor.root, in_place)) return true;
  if (!CheckAgreement(operation).ok()) return true;  // it needs none
  if (plans_->IsBeingMade(collective, descriptor.root, in_place)) return false;
  plans_->With(collective, descriptor.root, in_place, [this](const Result<const Schedule*>& plan) {
    if (!plan.ok()) return Break(plan.status());
    LaunchReady();
  });
  return false;
}

void Communicator::OnExecuted(Execution* execution) {
  auto* const operation = static_cast<MatchedOperation*>(execution->cookie);
  Communicator* const communicator = operation->communicator;
  Guarded([&] { communicator->Complete(operation); },
          [&](const Status& exception) { communicator->GiveUp(exception); });
}

void Communicator::Complete(MatchedOperation* operation) {
  in_flight_.Remove(operation);
  const bool ran = operation->parts.front()->descriptor.count > 0;
  Status outcome;
  if (ran) outcome = Judge(*operation, operation->execution.status());
  const bool checked = operation->sequence % kCollectivesPerCheck < 2;
  if (checked && ran && outcome.ok()) CheckPrediction(*operation);
  Settle(operation, outcome);
}

// The first of two collectives in a row is where the upper bound of the second begins.
void Communicator::CheckPrediction(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  if (IsPointToPoint(descriptor.collective)) return;
  const uint64_t now = MonotonicNanoseconds();
  if (operation.sequence % kCollectivesPerCheck == 0) {
    checked_ns_ = now;
    return;
  }
  if (checked_ns_ == 0 || operation.first_arrival_ns < checked_ns_) return;
  uint64_t all_ready = operation.first_arrival_ns;
  for (const PostedOperation* part : operation.parts) {
    all_ready = std::max(all_ready, part->ready_ns);
  }
  services_.tuning->CheckPrediction(
      {.collective = descriptor.collective,
       .ranks = ranks(),
       .block_bytes = descriptor.count * DataTypeSize(descriptor.type)},
      static_cast<double>(now - all_ready) * 1e-9, static_cast<double>(now - checked_ns_) * 1e-9,
      services_.work->machine());
}

// What becomes of an operation that the executor or the network has ended.
Status Communicator::Judge(const MatchedOperation& operation, const Status& end) {
  LoseRanksWithoutMemory(operation);
  if (end.ok()) return end;
  const PostedOperation& first = *operation.parts.front();
  return Status(end.code(),
                fmt::format("{}: {}", NameOf(first.descriptor, first.member->rank), end.message()));
}

void Communicator::Settle(MatchedOperation* operation, Status outcome) {
  if (state_ != State::kReady) outcome = failure_;
  if (outcome.ok()) Count(*operation);
  if (host_group_ != nullptr) NoteEnd(*operation, outcome);
  for (PostedOperation* part : operation->parts) services_.finished->Finish(part, outcome);
  pool_.GiveBack(operation);
}

// Whoever took pages of registered memory away, or had them fail: what the workers made of the
// operation is worth nothing, and they will not come near that memory again.
void Communicator::LoseRanksWithoutMemory(const MatchedOperation& operation) {
  for (const PostedOperation* part : operation.parts) {
    const auto lost = [](const Region* region) { return region != nullptr && region->lost(); };
    if (!lost(part->send_region) && !lost(part->receive_region)) continue;
    const std::string why =
        fmt::format("{} is lost: {}", DescribeRank(part->member->rank), kMemoryIsGone);
    Break(Status(Code::kRemoteError, why));
    services_.sessions->CutOffSoon(part->member->session->id(), kMemoryIsGone);
  }
}

// ---------------------------------------------------------------------------------------------
// Bookkeeping

MatchedOperation* Communicator::NewOperation(size_t parts) {
  Result<MatchedOperation*> operation = pool_.Take(parts);
  if (operation.ok()) return *operation;
  Break(operation.status());
  return nullptr;
}

size_t Communicator::PlaceOf(const PostedOperation& part) const {
  return place_of_rank_[static_cast<size_t>(part.member->rank)];
}

bool Communicator::IsRemote(int rank) const {
  return host_group_ != nullptr && !host_group_->roster().IsLocal(rank);
}

void Communicator::Count(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  const BufferBlocks blocks =
      BlocksOf(descriptor.collective, ranks(), std::max(descriptor.root, 0), descriptor.root);
  const uint64_t bytes =
      std::max(blocks.send, blocks.receive) * descriptor.count * DataTypeSize(descriptor.type);
  ++operations_;
  bytes_ += bytes;
  ++tenant_->operations;
  tenant_->bytes += bytes;
}

}  // namespace harmonaize::daemon
