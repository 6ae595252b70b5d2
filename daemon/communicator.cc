#include "daemon/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/cluster/remote_pairs.h"
#include "daemon/cluster/span.h"
#include "daemon/engine.h"
#include "daemon/guarded.h"
#include "daemon/operation_text.h"
#include "daemon/session.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/schedule/check.h"
#include "src/schedule/one_host.h"

namespace harmonaize::daemon {
namespace {

/// Of so many collectives in a row the first two are timed, for CheckPrediction. Reading the clock
/// and predicting take a tenth of a microsecond, a twentieth of the smallest operations.
constexpr uint64_t kCollectivesPerCheck = 64;

}  // namespace

Communicator::Communicator(Engine* engine, uint64_t id, std::string name, Tenant* tenant,
                           std::vector<Member*> members, std::optional<Roster> roster)
    : engine_(engine),
      id_(id),
      name_(std::move(name)),
      tenant_(tenant),
      members_(std::move(members)),
      left_after_(members_.size(), kStays) {
  for (const Member* member : members_) {
    place_of_rank_.push_back(local_ranks_);
    if (member != nullptr) ++local_ranks_;
  }
  if (!roster.has_value()) return;
  span_ = std::make_unique<Span>(engine, this, *std::move(roster));
  remote_pairs_ = std::make_unique<RemotePairs>(this, span_.get());
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
  while (sequence - window_start_ >= window_.size()) window_.push_back(nullptr);
  MatchedOperation*& operation = window_[sequence - window_start_];
  if (operation == nullptr) {
    operation = NewOperation(local_ranks_);
    operation->sequence = sequence;
    operation->first_arrival_ns = part->arrived_ns;
    engine_->AddWaiting();
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
  const bool sends = part->descriptor.collective == Collective::kSend;
  const int self = part->member->rank;
  const int peer = part->descriptor.root;
  // A part without its buffer is matched all the same, so that its peer is told.
  if (peer < 0 || peer >= ranks()) {
    part->outcome = part->invalid;
    return;
  }
  if (IsRemote(peer)) {
    part->crosses_hosts = true;
    engine_->AddWaiting();
    return remote_pairs_->Post(part);
  }
  if (member(peer) == nullptr) {
    part->outcome = RemoteError("rank {} has left the communicator", peer);
    return;
  }
  PairQueue& pair = pairs_[sends ? PairKey{self, peer} : PairKey{peer, self}];
  (sends ? pair.sends : pair.receives).push_back(part);
  engine_->AddWaiting();
  if (pair.sends.empty() || pair.receives.empty()) return;

  engine_->DropWaiting(2);
  MatchedOperation* operation = NewOperation(2);
  operation->parts[0] = pair.sends.front();
  operation->parts[1] = pair.receives.front();
  pair.sends.pop_front();
  pair.receives.pop_front();
  pair.next_report_ns = 0;
  operation->arrived = 2;
  operation->first_arrival_ns = part->arrived_ns;
  for (PostedOperation* half : operation->parts) {
    half->matched = operation;
    operation->ready += half->ready ? 1 : 0;
  }
  // The half that came last is not ready yet, so OnReady launches.
  matched_pairs_.push_back(operation);
}

void Communicator::OnReady(PostedOperation* part) {
  part->ready = true;
  if (part->ready_ns == 0) part->ready_ns = MonotonicNanoseconds();
  if (!part->outcome.ok()) {
    const Status outcome = part->outcome;
    engine_->Finish(part, outcome);
    return;
  }
  if (part->crosses_hosts) return remote_pairs_->OnReady(part);
  MatchedOperation* operation = part->matched;
  if (operation == nullptr) return;  // half of a pair, alone so far
  ++operation->ready;
  if (!IsPointToPoint(part->descriptor.collective)) {
    LaunchReady();
  } else if (operation->ready == 2) {
    std::erase(matched_pairs_, operation);
    Launch(operation);
  }
}

// Collectives start in the order of their sequence numbers, on every rank the same.
void Communicator::LaunchReady() {
  const auto all = static_cast<int>(local_ranks_);
  while (!window_.empty() && window_.front() != nullptr && window_.front()->arrived == all &&
         window_.front()->ready == all) {
    MatchedOperation* operation = window_.front();
    // Until OnPlanReady.
    if (span_ != nullptr && !engine_->control_loop().MayBegin(*this)) return;
    if (span_ != nullptr && !Prepare(operation)) return;
    window_.pop_front();
    ++window_start_;
    engine_->DropWaiting(1);
    Launch(operation);
  }
}

// ---------------------------------------------------------------------------------------------
// Execution

void Communicator::Launch(MatchedOperation* operation) {
  Status status = operation->verdict.ok() ? CheckAgreement(*operation) : operation->verdict;
  if (!status.ok()) {
    if (span_ != nullptr) NoteEnd(*operation, status);
    FailMatched(operation, status);
    return;
  }
  const bool crosses_hosts =
      span_ != nullptr && !IsPointToPoint(operation->parts.front()->descriptor.collective);
  WarnOfTypes(*operation);
  if (operation->parts.front()->descriptor.count == 0) {
    if (crosses_hosts) return EndHere(operation);
    in_flight_.push_back(operation);
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
  in_flight_.push_back(operation);
  engine_->Start(&operation->execution);
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
  bool in_place = false;
  operation->inputs.clear();
  operation->outputs.clear();
  operation->scalars.clear();
  for (const PostedOperation* part : operation->parts) {
    operation->inputs.push_back(part->send);
    operation->outputs.push_back(part->receive);
    operation->scalars.push_back(part->descriptor.scalar);
    in_place = in_place || part->send.SamePlace(part->receive);
  }
  // One in-place rank makes an all-to-all exchange; every other schedule serves both ways.
  const bool exchanges = in_place && descriptor.collective == Collective::kAllToAll;
  const Schedule& plan = PlanFor(descriptor.collective, descriptor.root, exchanges);

  Binding binding;
  binding.program = &plan.programs.front();
  binding.pieces = plan.pieces;
  binding.type = descriptor.type;
  binding.op = descriptor.op;
  binding.count = descriptor.count;
  binding.inputs = operation->inputs;
  binding.outputs = operation->outputs;
  binding.scalars = operation->scalars;
  binding.divisor = static_cast<uint64_t>(ranks());
  binding.tenant = tenant_->user;
  binding.weight = static_cast<float>(tenant_->weight);
  binding.helpable = true;
  binding.whole = true;
  binding.shared = engine_->executor().shared();
  binding.node = NodeOf(*operation);
  operation->execution.cookie = operation;
  operation->execution.on_finished = &OnExecuted;
  *status = operation->execution.Bind(binding, engine_->machine());
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
  const InlineConfig& config = engine_->config().inline_path;
  const bool possible = config.enabled && span_ == nullptr && ranks() <= kMaxInlineRanks;
  if (inline_segment_ == nullptr && possible) {
    const InlineLimits limits = InlineLimitsFor(config, engine_->inline_choice(), ranks());
    Result<std::unique_ptr<InlineSegment>> made =
        InlineSegment::Create(ranks(), limits, engine_->machine());
    if (!made.ok()) return made.status();
    inline_segment_ = std::move(*made);
    const bool all_here = std::find(members_.begin(), members_.end(), nullptr) == members_.end();
    if (state_ != State::kReady || !all_here) inline_segment_->Close();
  }
  return inline_segment_.get();
}

const Schedule& Communicator::PlanFor(Collective collective, int root, bool in_place) {
  const bool rooted = HasRoot(collective);
  if (collective == Collective::kReceive) collective = Collective::kSend;
  const auto key = std::make_tuple(collective, rooted ? root : -1, in_place);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  const bool serves_in_place = in_place || collective != Collective::kAllToAll;
  Schedule schedule = OneHost(collective, ranks(), rooted ? root : -1, serves_in_place);
#ifndef NDEBUG
  const Status proof = Check(schedule);
  if (!proof.ok()) {
    Log(LogLevel::kError, kLogTuning, "a schedule failed its proof: {}", proof.message());
    std::abort();
  }
#endif
  return plans_.emplace(key, std::move(schedule)).first->second;
}

void Communicator::OnExecuted(Execution* execution) {
  auto* const operation = static_cast<MatchedOperation*>(execution->cookie);
  Communicator* const communicator = operation->communicator;
  communicator->engine_->NoteExecuted();
  Guarded(
      [&] { communicator->Complete(operation); },
      [&](const Status& exception) { communicator->engine_->GiveUpOn(*communicator, exception); });
}

void Communicator::Complete(MatchedOperation* operation) {
  std::erase(in_flight_, operation);
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
  engine_->CheckPrediction({.collective = descriptor.collective,
                            .ranks = ranks(),
                            .block_bytes = descriptor.count * DataTypeSize(descriptor.type)},
                           static_cast<double>(now - all_ready) * 1e-9,
                           static_cast<double>(now - checked_ns_) * 1e-9);
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
  if (span_ != nullptr) NoteEnd(*operation, outcome);
  for (PostedOperation* part : operation->parts) engine_->Finish(part, outcome);
  Recycle(operation);
}

// Whoever took pages of registered memory away, or had them fail: what the workers made of the
// operation is worth nothing, and they will not come near that memory again.
void Communicator::LoseRanksWithoutMemory(const MatchedOperation& operation) {
  for (const PostedOperation* part : operation.parts) {
    const auto lost = [](const Region* region) { return region != nullptr && region->lost(); };
    if (!lost(part->send_region) && !lost(part->receive_region)) continue;
    const std::string why = fmt::format(
        "{} is lost: pages of its registered memory are gone (a hole was made in it, or the memory "
        "failed)",
        DescribeRank(part->member->rank));
    Break(Status(Code::kRemoteError, why));
    engine_->CutOffSoon(part->member->session->id(), "pages of its registered memory are gone");
  }
}

// ---------------------------------------------------------------------------------------------
// Bookkeeping

MatchedOperation* Communicator::NewOperation(size_t parts) {
  if (free_operations_.empty()) {
    pool_.push_back(std::make_unique<MatchedOperation>());
    free_operations_.push_back(pool_.back().get());
  }
  MatchedOperation* operation = free_operations_.back();
  free_operations_.pop_back();
  operation->communicator = this;
  operation->sequence = 0;
  operation->parts.assign(parts, nullptr);
  operation->arrived = 0;
  operation->ready = 0;
  operation->next_report_ns = 0;
  operation->plan = nullptr;
  operation->network = nullptr;
  operation->feed.Clear();
  operation->started_ns = 0;
  operation->reported = false;
  operation->verdict = Status::Ok();
  operation->told = false;
  operation->done_here = false;
  operation->late_ranks.clear();
  return operation;
}

size_t Communicator::PlaceOf(const PostedOperation& part) const {
  return place_of_rank_[static_cast<size_t>(part.member->rank)];
}

bool Communicator::IsRemote(int rank) const {
  return span_ != nullptr && !span_->roster().IsLocal(rank);
}

void Communicator::Recycle(MatchedOperation* operation) {
  free_operations_.push_back(operation);
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
