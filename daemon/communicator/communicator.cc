#include "daemon/communicator/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "daemon/host/host_tuning.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/executor/host/work_engine.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of the daemon's memory that a communicator is charged for, without its ranks.
constexpr int64_t kCommunicatorBytes = 4096;
/// Bytes of the daemon's memory that a communicator is charged for each rank: its places in lists.
constexpr int64_t kRankOfCommunicatorBytes = 64;

/// Gaps between collectives, in nanoseconds, up to which operations that went inline are not looked
/// for. No rank is late within such a time.
constexpr uint64_t kLongGapNanoseconds = 100'000'000;

/// Most collectives that begin at once, before the engine looks at other tenants' work.
constexpr int kLaunchedAtOnce = 64;

/// The lanes that an operation needs: none, unless it is a pair with windows.
struct NeededLanes {
  using Lane = PairLanes<MatchedOperation*>::Lane;

  explicit NeededLanes(const MatchedOperation& operation) {
    for (const PostedOperation* part : operation.parts) {
      if (part == nullptr) return;  // a collective
      const Collective collective = part->descriptor.collective;
      if (!IsPointToPoint(collective) || !HasWindows(*part)) continue;
      lanes[size++] = Lane(part->member->rank, collective == Collective::kSend);
    }
  }
  operator std::span<const Lane>() const {  // NOLINT(google-explicit-constructor)
    return std::span(lanes).first(size);
  }

  std::array<Lane, 2> lanes;
  size_t size = 0;
};

}  // namespace

Result<CommunicatorHoldings> PayForCommunicator(Account& account, size_t ranks) {
  HZ_ASSIGN_OR_RETURN(Holding place, account.Take(Resource::kCommunicators, 1));
  HZ_ASSIGN_OR_RETURN(
      Holding memory,
      account.Take(Resource::kMemory,
                   kCommunicatorBytes + kRankOfCommunicatorBytes * static_cast<int64_t>(ranks)));
  return CommunicatorHoldings{std::move(place), std::move(memory)};
}

Communicator::Communicator(const CommunicatorServices& services, uint64_t id, std::string name,
                           Tenant* tenant, std::vector<Member*> members)
    : services_(services),
      id_(id),
      name_(std::move(name)),
      tenant_(tenant),
      members_(std::move(members)),
      left_after_(members_.size(), kStays),
      pool_(this, [this](int64_t bytes) { return Pay(bytes); }),
      local_(services_, this, tenant, ranks()) {
  for (const Member* member : members_) {
    place_of_rank_.push_back(local_ranks_);
    if (member != nullptr) ++local_ranks_;
  }
}

Communicator::~Communicator() = default;

// ---------------------------------------------------------------------------------------------
// Matching

void Communicator::Post(PostedOperation* part) {
  if (IsMessage(*part)) return PostMessage(part);
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
    MatchedOperation* const made = NewOperation(local_ranks_, members_.size());
    if (made == nullptr) {
      part->outcome = failure_;
      return;
    }
    operation = made;
    operation->sequence = sequence;
    operation->first_arrival_ns = part->arrived_ns;
    operation->waiting = WaitingHold(*services_.waiting);
    if (other_hosts_ != nullptr) other_hosts_->OnFirstPart(operation);
  }
  operation->parts[PlaceOf(part->member->rank)] = part;
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
  pair_gap_.Note(part->arrived_ns);
  if (IsRemote(peer)) {
    part->crosses_hosts = true;
    part->waiting = WaitingHold(*services_.waiting);
    return other_hosts_->PostPair(part);
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

  MatchedOperation* operation = NewOperation(2, 2);
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

// Charges the communicator for one more waiting pair of ranks. Returns false, and breaks the
// communicator, if the tenant has no memory left for it.
bool Communicator::PayForPair() {
  const Status paid = paid_pairs_.Cover(static_cast<int64_t>(pairs_.pairs()) + 1,
                                        [this](int64_t bytes) { return Pay(bytes); });
  if (!paid.ok()) Break(paid);
  return paid.ok();
}

void Communicator::PostMessage(PostedOperation* message) {
  ++messages_;
  message->ready = true;
  const int peer = message->descriptor.root;
  if (state_ != State::kReady) return services_.finished->Finish(message, failure_);
  if (!message->invalid.ok()) {
    const Status invalid = message->invalid;
    return services_.finished->Finish(message, invalid);
  }
  if (HasLeft(peer)) {
    return services_.finished->Finish(message,
                                      RemoteError("rank {} has left the communicator", peer));
  }
  if (ranks() != kRanksWithPipes) {
    return services_.finished->Finish(
        message, InvalidUsage("a message in a pipe of a communicator of {} ranks, where only those "
                              "of {} have pipes",
                              ranks(), kRanksWithPipes));
  }
  if (IsRemote(peer)) return other_hosts_->PostMessage(message);
  PostMessageHere(message);
}

void Communicator::PostMessageHere(PostedOperation* message) {
  const Status paid = paid_pipes_.Cover(static_cast<int64_t>(pipes_.size()) + 1,
                                        [this](int64_t bytes) { return Pay(bytes); });
  if (!paid.ok()) return services_.finished->Finish(message, paid);
  const Result<std::optional<Pipes::Match>> match = pipes_.Add(message);
  if (!match.ok()) return services_.finished->Finish(message, match.status());
  if (match->has_value()) Copy(**match);
}

// Copies a message from its sender's buffer to its receiver's.
void Communicator::Copy(const Pipes::Match& match) {
  const uint64_t bytes = match.send->descriptor.count;
  if (bytes > match.receive->descriptor.count) {
    const Status too_long = InvalidUsage("a message of {} bytes came where {} were due at most",
                                         bytes, match.receive->descriptor.count);
    return Doom({}, {match.send, match.receive}, too_long);
  }
  MatchedOperation* const operation = NewOperation(2, 2);
  if (operation == nullptr) return Doom({}, {match.send, match.receive}, failure_);
  operation->parts[0] = match.send;
  operation->parts[1] = match.receive;
  for (PostedOperation* half : operation->parts) {
    half->matched = operation;
    half->moved_bytes = bytes;
  }
  const Status started = local_.Start(operation);
  if (!started.ok()) FailMatched(operation, started);
}

Status Communicator::ClosePipe(const PipeId& id) {
  if (ranks() != kRanksWithPipes || id.peer < 0 || id.peer >= ranks()) {
    return InvalidArgument("a pipe to rank {} of a communicator of {} ranks", id.peer, ranks());
  }
  if (state_ != State::kReady || HasLeft(id.peer)) return Status::Ok();
  if (IsRemote(id.peer)) return other_hosts_->ClosePipe(id);
  HZ_RETURN_IF_ERROR(paid_pipes_.Cover(static_cast<int64_t>(pipes_.size()) + 1,
                                       [this](int64_t bytes) { return Pay(bytes); }));
  Doom({}, pipes_.Close(id), RemoteError("rank {} has closed the pipe", id.rank));
  return Status::Ok();
}

void Communicator::OnReady(PostedOperation* part) {
  part->ready = true;
  if (part->ready_ns == 0) part->ready_ns = MonotonicNanoseconds();
  if (!part->outcome.ok()) {
    const Status outcome = part->outcome;
    services_.finished->Finish(part, outcome);
    return;
  }
  if (part->crosses_hosts) return other_hosts_->OnPairReady(part);
  MatchedOperation* operation = part->matched;
  if (operation == nullptr) return;  // half of a pair, alone so far
  if (operation->doomed) return;     // it fails soon
  ++operation->ready;
  if (!IsPointToPoint(part->descriptor.collective)) {
    LaunchReady();
  } else if (operation->ready == 2) {
    pair_lanes_.Enter(operation, NeededLanes(*operation));
    StartPair(operation);
  }
}

// Launches a pair if it has its turn. Requires: both halves are ready.
void Communicator::StartPair(MatchedOperation* operation) {
  if (operation->in_turn || !pair_lanes_.IsFirst(operation, NeededLanes(*operation))) return;
  operation->in_turn = true;
  matched_pairs_.Remove(operation);
  Launch(operation);
}

// Pairs that fail at once would start each other, so this is called from the loop. What ends
// meanwhile is taken out of the list.
void Communicator::StartNextPairs() {
  next_pairs_posted_ = false;
  for (int started = 0; started < kLaunchedAtOnce && !next_pairs_.empty(); ++started) {
    MatchedOperation* const operation = next_pairs_.back();
    next_pairs_.pop_back();
    StartPair(operation);
  }
  if (!next_pairs_.empty()) PostNextPairs();
}

void Communicator::PostNextPairs() {
  if (std::exchange(next_pairs_posted_, true)) return;
  CallSoon([this] { StartNextPairs(); });
}

// Lets those go on that wait for the lanes of an operation that ends.
void Communicator::LeaveLanes(MatchedOperation* operation) {
  if (pair_lanes_.empty()) return;
  std::erase(next_pairs_, operation);
  const NeededLanes lanes(*operation);
  if (lanes.size == 0) return;
  const std::vector<MatchedOperation*> next = pair_lanes_.Leave(operation, lanes);
  if (next.empty()) return;
  next_pairs_.insert(next_pairs_.end(), next.begin(), next.end());
  PostNextPairs();
}

// Collectives start in the order of their sequence numbers, on every rank the same.
void Communicator::LaunchReady() {
  const auto all = static_cast<int>(local_ranks_);
  int launched = 0;
  while (window_.front() != nullptr && window_.front()->arrived == all &&
         window_.front()->ready == all) {
    if (++launched > kLaunchedAtOnce) return LaunchLater();
    MatchedOperation* operation = window_.front();
    if (!MayLaunch(operation)) return;
    window_.PopFront();
    NoteGap(*operation);
    operation->waiting.Reset();
    if (operation->next_report_ns != 0) {
      observers().Tell(&CommunicatorObserver::OnRecovered, *this);
    }
    Launch(operation);
  }
}

// Operations that went inline since the last collective are counted as if they had come one by one.
// They are counted only after a long gap, since the count is gathered from all ranks.
void Communicator::NoteGap(const MatchedOperation& operation) {
  uint64_t between = 0;
  const uint64_t at_ns = operation.first_arrival_ns;
  if (inline_segment_ != nullptr && at_ns > collective_gap_.last_ns() + kLongGapNanoseconds) {
    const uint64_t done = inline_segment_->operations();
    const uint64_t before = std::exchange(inline_operations_, done);
    between = done - std::min(done, before);
  }
  collective_gap_.Note(at_ns, between);
}

// Returns whether the operation may be launched; if not, LaunchReady is called again when it may.
bool Communicator::MayLaunch(MatchedOperation* operation) {
  if (other_hosts_ != nullptr) return other_hosts_->MayLaunch(operation);
  if (!local_.HasTurn(*operation)) return false;
  // An operation about which its ranks disagree needs no plan.
  if (local_.HasPlan(*operation) || !CheckAgreement(*operation).ok()) return true;
  local_.MakePlan(*operation, [this](const Status& made) {
    if (!made.ok()) return Break(made);
    LaunchReady();
  });
  return false;
}

void Communicator::OnPlanReady() {
  LaunchReady();
  if (other_hosts_ != nullptr) other_hosts_->OnPlanReady();
}

// Posts the rest of LaunchReady: a tenant may have thousands of collectives that wait for one.
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
    if (other_hosts_ != nullptr) other_hosts_->NoteEnd(*operation, status);
    TellMismatch(*operation, status);
    FailMatched(operation, status);
    return;
  }
  WarnOfTypes(*operation);
  const bool pair = IsPointToPoint(operation->parts.front()->descriptor.collective);
  if (other_hosts_ != nullptr && !pair) return other_hosts_->Launch(operation);
  status = local_.Start(operation);
  if (!status.ok()) FailMatched(operation, status);
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
  return agree ? Status::Ok() : MismatchOf(operation).AsError();
}

Mismatch Communicator::MismatchOf(const MatchedOperation& operation) {
  Mismatch mismatch{.sequence = operation.sequence};
  for (const PostedOperation* part : operation.parts) {
    mismatch.asked.push_back({part->member->rank, part->descriptor});
  }
  return mismatch;
}

// The home of a communicator of several hosts tells of its mismatches.
void Communicator::TellMismatch(const MatchedOperation& operation, const Status& error) {
  const Mismatch mismatch = MismatchOf(operation);
  if (AllAgree(mismatch.asked)) return;
  const bool pair = IsPointToPoint(operation.parts.front()->descriptor.collective);
  NoteDisagreement(pair ? 0 : operation.sequence, error);
  if (other_hosts_ != nullptr) return;
  observers().Tell(&CommunicatorObserver::OnMismatch, *this, mismatch);
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

Result<InlineSegment*> Communicator::Inline() {
  const InlineConfig& config = services_.config->inline_path;
  const bool possible = config.enabled && other_hosts_ == nullptr && ranks() <= kMaxInlineRanks;
  if (inline_segment_ == nullptr && possible) {
    HZ_ASSIGN_OR_RETURN(inline_segment_, InlineSegment::Create(ranks(), InlineLimitsNow(),
                                                               services_.work->machine()));
    const bool all_here = std::find(members_.begin(), members_.end(), nullptr) == members_.end();
    if (state_ != State::kReady || !all_here) inline_segment_->Close();
  }
  return inline_segment_.get();
}

// Returns what goes inline by the host's measured costs and by the job's terms.
InlineLimits Communicator::InlineLimitsNow() {
  InlineLimits limits = InlineLimitsFor(
      services_.config->inline_path, services_.tuning->Choice(services_.work->machine()), ranks());
  LimitInline(own_terms(), ranks(), &limits);
  return limits;
}

const JobTerms& Communicator::terms() const {
  static const JobTerms of_no_job;
  return job_ == nullptr ? of_no_job : *job_->terms;
}

const CommunicatorTerms& Communicator::own_terms() {
  static const auto of_no_job = std::make_shared<const JobTerms>();
  const std::shared_ptr<const JobTerms>& granted = job_ == nullptr ? of_no_job : job_->terms;
  if (!own_terms_.has_value() || own_terms_->job() != granted) {
    own_terms_.emplace(granted, name_);
    operation_terms_.Clear();
  }
  return *own_terms_;
}

const OperationTerms& Communicator::TermsOf(const OperationDescriptor& descriptor) {
  const uint64_t bytes = OperationBytes(descriptor.collective, ranks(),
                                        descriptor.count * DataTypeSize(descriptor.type));
  return operation_terms_.For(own_terms(), descriptor.collective, bytes);
}

void Communicator::SetWorkTerms(const OperationDescriptor& descriptor, Operands* operands) {
  if (job_ == nullptr) return;
  const OperationTerms& granted = TermsOf(descriptor);
  operands->job = job_->id.number();
  operands->most_workers = granted.most_workers;
  operands->sleeps_at_once = granted.sleeps_at_once;
}

void Communicator::SetJob(Job* job) {
  job_ = job;
  TellLooking();
}

// Tells the ranks here how they should wait.
void Communicator::TellLooking() {
  const Looking looking = terms().LookingOf(name_);
  for (Member* const member : members_) {
    if (member != nullptr) member->session->SetLooking(member, looking);
  }
}

void Communicator::OnTermsChanged() {
  TellLooking();
  if (inline_segment_ != nullptr) inline_segment_->SetLimits(InlineLimitsNow());
  if (other_hosts_ != nullptr) other_hosts_->OnTermsChanged();
}

void Communicator::OnLocalDone(MatchedOperation* operation, const Status& outcome) {
  const bool sliced = !operation->feed.empty();
  Settle(operation, Judge(*operation, outcome));
  if (sliced) LaunchReady();  // the next one may have waited for its turn
}

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
  if (outcome.ok() && !IsMessage(*operation->parts.front())) TakeTime(*operation);
  if (other_hosts_ != nullptr) other_hosts_->NoteEnd(*operation, outcome);
  LeaveLanes(operation);
  for (PostedOperation* part : operation->parts) services_.finished->Finish(part, outcome);
  pool_.GiveBack(operation);
}

// An operation's time begins when the last rank here is ready. Clocks are read where somebody wants
// to know.
void Communicator::TakeTime(const MatchedOperation& operation) {
  const OperationTerms& granted = TermsOf(operation.parts.front()->descriptor);
  const bool is_exchange = job_ != nullptr && job_->exchanges.has_value();
  if (granted.deadline_seconds <= 0 && !is_exchange) return;
  uint64_t ready_ns = 0;
  for (const PostedOperation* part : operation.parts) {
    ready_ns = std::max(ready_ns, part->ready_ns);
  }
  const uint64_t now_ns = MonotonicNanoseconds();
  if (is_exchange) job_->exchanges->Add(ready_ns, now_ns);
  if (granted.deadline_seconds > 0) WatchDeadline(AgeInSeconds(ready_ns, now_ns), granted);
}

void Communicator::WatchDeadline(double seconds, const OperationTerms& granted) {
  const std::optional<DeadlineWatch::Change> change =
      deadlines_.Count(seconds, granted.deadline_seconds, granted.percentile);
  const bool tells = other_hosts_ == nullptr || other_hosts_->is_home();
  if (!change.has_value() || !tells) return;
  observers().Tell(&CommunicatorObserver::OnRequirementChanged, *this,
                   RequirementChange{.requirement = "deadline_us",
                                     .met = change->met,
                                     .granted = granted.deadline_seconds,
                                     .measured = change->measured_seconds,
                                     .unit = "seconds"});
}

// Breaks the communicator if pages of a rank's registered memory were taken away or have failed,
// and ends the rank's session. The result of the operation is worth nothing, and the workers will
// not come near that memory again.
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
// Ranks that are late

void Communicator::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  const uint64_t asked_ns = terms().faults().late_after_ns();
  if (asked_ns > 0) late_after_ns = asked_ns;
  late_.Report(now_ns, late_after_ns);
  if (other_hosts_ != nullptr) other_hosts_->ReportLate(now_ns, late_after_ns);
}

WaitingOperations Communicator::Waiting(uint64_t now_ns) const {
  return late_.Waiting(now_ns);
}

void Communicator::Notify(const std::vector<PostedOperation*>& waiting, const std::string& notice) {
  observers().Tell(&CommunicatorObserver::OnLate, *this, notice);
  for (PostedOperation* part : waiting) {
    if (part != nullptr) part->member->slot->notice.Set(notice);
  }
}

void Communicator::NotifyRanks(const std::vector<int>& ranks, const std::string& notice) {
  observers().Tell(&CommunicatorObserver::OnLate, *this, notice);
  for (const int rank : ranks) {
    const Member* const one = member(rank);
    if (one != nullptr) one->slot->notice.Set(notice);
  }
}

// ---------------------------------------------------------------------------------------------
// Bookkeeping

MatchedOperation* Communicator::NewOperation(size_t parts, size_t ranks) {
  Result<MatchedOperation*> operation = pool_.Take(parts, ranks);
  if (operation.ok()) return *operation;
  Break(operation.status());
  return nullptr;
}

const PostedOperation* Communicator::PartOf(const MatchedOperation& operation, int rank) const {
  return operation.parts[PlaceOf(rank)];
}

bool Communicator::executing() const {
  return executing_here() || (other_hosts_ != nullptr && other_hosts_->executing());
}

void Communicator::FinishPart(PostedOperation* part, const Status& outcome) {
  services_.finished->Finish(part, state_ == State::kReady ? outcome : failure_);
}

void Communicator::Count(const MatchedOperation& operation) {
  const OperationDescriptor& descriptor = operation.parts.front()->descriptor;
  CountMessage(OperationBytes(descriptor.collective, ranks(),
                              descriptor.count * DataTypeSize(descriptor.type)));
}

void Communicator::CountMessage(uint64_t bytes) {
  ++operations_;
  bytes_ += bytes;
  ++tenant_->operations;
  tenant_->bytes += bytes;
}

}  // namespace harmonaize::daemon
