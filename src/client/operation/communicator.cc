#include "src/client/operation/communicator.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <type_traits>
#include <utility>

#include "src/base/asymmetric_fence.h"
#include "src/base/settings.h"
#include "src/client/inline/inline_path.h"
#include "src/client/memory/device_memory.h"
#include "src/client/operation/copy_batch.h"
#include "src/client/operation/copy_queue.h"
#include "src/client/operation/notices.h"

namespace harmonaize {
namespace {

/// Host streams that a communicator remembers before it looks which of them are done.
constexpr size_t kStreamsBeforeSearch = 64;

}  // namespace

Communicator::Communicator(std::shared_ptr<Session> session, uint32_t member,
                           const CommunicatorOptions& options)
    : session_(std::move(session)),
      member_(member),
      options_(options),
      copies_(std::make_shared<CopyQueue>(session_, member)),
      notices_(std::make_shared<Notices>(session_, member)) {
  LookForDeviceDriver();
  failures_told_ = session_->stream_slot(member_).error_count.load(std::memory_order_acquire);
}

// Batches may be left where the daemon is gone. In a forked child they are left for good: to give
// them back takes locks that threads may hold which are not here.
Communicator::~Communicator() {
  if (!session_->inherited()) {
    DropCopies();
    return;
  }
  static_cast<void>(new std::shared_ptr<CopyQueue>(copies_));
  static_cast<void>(new std::vector<std::unique_ptr<CopyBatch>>(std::move(kept_batches_)));
}

Result<UniqueId> Communicator::CreateUniqueId() {
  const char* name = Setting("NCCL_COMM_ID");
  if (name != nullptr && *name != '\0') {
    HZ_RETURN_IF_ERROR(CheckNamedId(name));
    return MakeNamedId(name);
  }
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  HZ_ASSIGN_OR_RETURN(const CreateIdReply reply, session->Call<CreateIdReply>(CreateIdRequest{}));
  return reply.id;
}

template <typename Request>
Result<std::unique_ptr<Communicator>> Communicator::Make(std::shared_ptr<Session> session,
                                                         const Request& request,
                                                         const CommunicatorOptions& options,
                                                         std::span<const std::byte> tail) {
  HZ_ASSIGN_OR_RETURN(const MemberReply reply, session->template Call<MemberReply>(request, tail));
  if (reply.member == kNoMember) return std::unique_ptr<Communicator>();
  if (reply.member >= kMaxMembers) {
    return InternalError("the daemon answered with member {}", reply.member);
  }
  return std::unique_ptr<Communicator>(new Communicator(std::move(session), reply.member, options));
}

template <typename Request>
Result<std::unique_ptr<Communicator>> Communicator::MakeFromThis(const Request& request,
                                                                 const CommunicatorOptions& options,
                                                                 std::span<const std::byte> tail) {
  Result<std::unique_ptr<Communicator>> made = Make(session_, request, options, tail);
  if (made.ok() && *made != nullptr) (*made)->parent_aborted_ = aborted_flag_;
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::Join(const UniqueId& id, int ranks, int rank,
                                                         const CommunicatorOptions& options) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  JoinRequest request;
  request.id = id;
  request.ranks = ranks;
  request.rank = rank;
  request.on_gpu = options.on_gpu ? 1 : 0;
  SetFieldText(request.name, options.name);
  return Make(std::move(session), request, options);
}

Result<std::unique_ptr<Communicator>> Communicator::Split(bool has_color, int color, int key,
                                                          const CommunicatorOptions& options) {
  SplitRequest request;
  request.member = member_;
  request.color = color;
  request.key = key;
  request.has_color = has_color ? 1 : 0;
  SetFieldText(request.name, options.name);
  return MakeFromThis(request, options);
}

Result<std::unique_ptr<Communicator>> Communicator::Shrink(std::span<const int> excluded,
                                                           bool abort_parent,
                                                           const CommunicatorOptions& options) {
  ShrinkRequest request;
  request.member = member_;
  request.abort_parent = abort_parent ? 1 : 0;
  SetFieldText(request.name, options.name);
  static_assert(sizeof(int) == sizeof(int32_t));
  return MakeFromThis(request, options, std::as_bytes(excluded));
}

Result<UniqueId> Communicator::CreateGrowId() {
  CreateGrowIdRequest request;
  request.member = member_;
  HZ_ASSIGN_OR_RETURN(const CreateIdReply reply, session_->Call<CreateIdReply>(request));
  return reply.id;
}

Result<std::string> Communicator::MakeTicket(int uses, double seconds) {
  MakeTicketRequest request;
  request.member = member_;
  request.uses = uses;
  request.seconds = seconds;
  HZ_ASSIGN_OR_RETURN(const MakeTicketReply reply, session_->Call<MakeTicketReply>(request));
  return FieldText(reply.ticket);
}

Status Communicator::BurnTickets() {
  BurnTicketsRequest request;
  request.member = member_;
  return session_->Call<EmptyReply>(request).status();
}

Result<int> Communicator::CountNewcomers() {
  NewcomersRequest request;
  request.member = member_;
  HZ_ASSIGN_OR_RETURN(const NewcomersReply reply, session_->Call<NewcomersReply>(request));
  return reply.waiting;
}

Result<int> Communicator::Admit(int most) {
  AdmitRequest request;
  request.member = member_;
  request.most = most;
  HZ_ASSIGN_OR_RETURN(const AdmitReply reply, session_->Call<AdmitReply>(request));
  return reply.ranks;
}

Result<Communicator::LostRanks> Communicator::FindLostRanks() {
  LostRanksRequest request;
  request.member = member_;
  LostRanks lost;
  static_assert(std::is_same_v<int, int32_t>);
  HZ_ASSIGN_OR_RETURN(const LostRanksReply reply,
                      session_->CallForNumbers<LostRanksReply>(request, &lost.ranks));
  lost.count = reply.count;
  return lost;
}

Result<std::unique_ptr<Communicator>> Communicator::GrowFrom(int ranks,
                                                             const CommunicatorOptions& options) {
  GrowRequest request;
  request.member = member_;
  request.ranks = ranks;
  SetFieldText(request.name, options.name);
  return MakeFromThis(request, options);
}

Result<std::unique_ptr<Communicator>> Communicator::JoinGrowth(const UniqueId& id, int ranks,
                                                               int rank,
                                                               const CommunicatorOptions& options) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  GrowRequest request;
  request.id = id;
  request.ranks = ranks;
  request.rank = rank;
  SetFieldText(request.name, options.name);
  return Make(std::move(session), request, options);
}

Status Communicator::AwaitReady() {
  HZ_RETURN_IF_ERROR(CheckNotAborted());
  HZ_RETURN_IF_ERROR(session_->WaitWhileForming(member_, [this]() -> Status {
    if (parent_aborted_ != nullptr && parent_aborted_->load()) {
      return RemoteError("the communicator that this one is made from was aborted meanwhile");
    }
    return OnTick();
  }));
  HZ_RETURN_IF_ERROR(SlotFailure());
  const std::lock_guard lock(ready_mutex_);
  if (rank() >= 0) return Status::Ok();
  const int rank = slot().rank.load(std::memory_order_relaxed);
  const int ranks = slot().ranks.load(std::memory_order_relaxed);
  HZ_ASSIGN_OR_RETURN(inline_path_, InlinePath::Attach(*session_, member_, rank, ranks));
  ranks_.store(ranks, std::memory_order_relaxed);
  // Release: a thread that sees the rank sees the rest.
  rank_.store(rank, std::memory_order_release);
  return Status::Ok();
}

int Communicator::ranks_together() const {
  const int together = slot().ranks_together.load(std::memory_order_relaxed);
  return together >= 1 && ranks() % together == 0 ? together : 1;
}

uint64_t Communicator::mapped_bytes() const {
  return inline_path_ != nullptr ? inline_path_->bytes() : 0;
}

Status Communicator::SlotFailure() const {
  if (slot().state.load(std::memory_order_acquire) != static_cast<uint32_t>(MemberState::kFailed)) {
    return Status::Ok();
  }
  return Status(static_cast<Code>(slot().error_code.load(std::memory_order_acquire)),
                slot().error.Get());
}

Status Communicator::AsyncState() {
  if (session_->lost()) return session_->CheckAlive();
  const auto state = static_cast<MemberState>(slot().state.load(std::memory_order_acquire));
  if (state == MemberState::kForming) {
    HZ_RETURN_IF_ERROR(session_->CheckAlive());
    return Status(Code::kInProgress, "the communicator is forming");
  }
  if (state == MemberState::kFailed) return SlotFailure();
  if (rank() < 0) HZ_RETURN_IF_ERROR(AwaitReady());
  const Status settled = SettleOperation();
  if (!settled.ok() || (finalizing_.load() && !Quiescent())) {
    HZ_RETURN_IF_ERROR(session_->CheckAlive());
    return Status(Code::kInProgress, "operations are under way");
  }
  finalizing_.store(false);
  NoteFirstFailure(TakeOperationFailure());
  const std::lock_guard lock(failure_mutex_);
  return first_failure_;
}

void Communicator::NoteFirstFailure(const Status& failure) {
  const std::lock_guard lock(failure_mutex_);
  if (first_failure_.ok()) first_failure_ = failure;
}

void Communicator::LeavePending() {
  const std::lock_guard lock(pending_mutex_);
  pending_position_ = own_position_;
  operation_pending_.store(true, std::memory_order_release);
}

void Communicator::KeepUntilLeft(std::vector<std::unique_ptr<CopyBatch>> batches) {
  const std::lock_guard lock(pending_mutex_);
  std::move(batches.begin(), batches.end(), std::back_inserter(kept_batches_));
}

// When it returns, no thread touches buffers of this communicator's operations.
void Communicator::DropCopies() {
  KeepUntilLeft(copies_->Drop(this));
  for (const StreamUse& use : streams_used_) KeepUntilLeft(use.stream->Drop(this));
}

// Callers before the end copy a part of the data, and get kInProgress, without a text. Returns ok
// if nothing is pending.
Status Communicator::SettleOperation() {
  if (!operation_pending_.load(std::memory_order_acquire)) return Status::Ok();
  const std::unique_lock lock(pending_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Status(Code::kInProgress, "");
  if (!operation_pending_.load(std::memory_order_relaxed)) return Status::Ok();
  if (!copies_->Reached(pending_position_)) return Status(Code::kInProgress, "");
  static_cast<void>(OnTick());
  NoteFirstFailure(TakeOperationFailure());
  // Release: a thread that finds nothing pending finds the data.
  operation_pending_.store(false, std::memory_order_release);
  return Status::Ok();
}

Status Communicator::CheckNotAborted() const {
  return aborted() ? RemoteError("the communicator has been aborted") : Status::Ok();
}

Status Communicator::CheckThoroughly() {
  if (session_->inherited()) {
    return InvalidUsage(
        "this process was forked from the one that made the communicator; make a new communicator "
        "in the child");
  }
  if (session_->lost()) return session_->CheckAlive();
  HZ_RETURN_IF_ERROR(SlotFailure());
  if (aborted_.load()) return InvalidUsage("the communicator has been aborted");
  if (slot().state.load(std::memory_order_acquire) != static_cast<uint32_t>(MemberState::kReady)) {
    HZ_RETURN_IF_ERROR(session_->CheckAlive());
    return InvalidArgument(
        "the communicator is not ready: poll ncclCommGetAsyncError until it is no longer "
        "ncclInProgress");
  }
  if (rank() < 0) HZ_RETURN_IF_ERROR(AwaitReady());
  if (!SettleOperation().ok() || (finalizing_.load() && !Quiescent())) {
    return InvalidArgument(
        "the previous call on this non-blocking communicator is still in progress: poll "
        "ncclCommGetAsyncError until it is no longer ncclInProgress");
  }
  if (finalized_.load()) return InvalidUsage("the communicator has been finalized");
  return Status::Ok();
}

Status Communicator::CheckHealth() {
  HZ_RETURN_IF_ERROR(session_->CheckAlive());
  return SlotFailure();
}

// Called about ten times a second while a thread waits, and at the end. Passes on the daemon's
// notices of late ranks, and its warnings.
Status Communicator::OnTick() {
  notices_->PassOn();
  return Status::Ok();
}

bool Communicator::OwnPositionReached() {
  return session_->stream_slot(member_).completed.load(std::memory_order_acquire) >= own_position_;
}

Status Communicator::AwaitOwnPosition(const std::function<void()>& meanwhile) {
  HZ_RETURN_IF_ERROR(session_->WaitForPosition(member_, own_position_, [this, &meanwhile] {
    if (meanwhile) meanwhile();
    return OnTick();
  }));
  // Passes on notices about an operation that ended before the first tick.
  HZ_RETURN_IF_ERROR(OnTick());
  return TakeOperationFailure();
}

Status Communicator::TakeOperationFailure() {
  const StreamSlot& stream = session_->stream_slot(member_);
  const std::lock_guard lock(failure_mutex_);
  const uint32_t count = stream.error_count.load(std::memory_order_acquire);
  if (count == failures_told_) return Status::Ok();
  failures_told_ = count;
  const auto code = static_cast<Code>(stream.error_code.load(std::memory_order_relaxed));
  std::string text = slot().error.Get();
  notices_->Keep(text);  // newer than any late notice
  return Status(code, std::move(text));
}

void Communicator::NoteStreamUse(HostStream* stream, uint64_t position) {
  const std::shared_ptr<CopyQueue>& copies = stream->copies();
  const auto found = std::find_if(streams_used_.begin(), streams_used_.end(),
                                  [&](const StreamUse& use) { return use.stream == copies; });
  if (found != streams_used_.end()) {
    found->position = position;
    return;
  }
  // Streams come and go.
  if (streams_used_.size() >= kStreamsBeforeSearch) {
    std::erase_if(streams_used_,
                  [](const StreamUse& use) { return use.stream->DoneUpTo(use.position); });
  }
  streams_used_.push_back({copies, position});
  stream->AddNotices(notices_);
}

bool Communicator::Quiescent() {
  return OwnPositionReached() &&
         std::all_of(streams_used_.begin(), streams_used_.end(),
                     [](const StreamUse& use) { return use.stream->Reached(use.position); });
}

Status Communicator::AwaitQuiescent() {
  const auto on_tick = [this] {
    static_cast<void>(OnTick());
    return CheckNotAborted();
  };
  HZ_RETURN_IF_ERROR(copies_->Await(own_position_, on_tick));
  for (const StreamUse& use : streams_used_) {
    HZ_RETURN_IF_ERROR(use.stream->Await(use.position, on_tick));
  }
  // An abort also ends the operations that are awaited.
  return CheckNotAborted();
}

Status Communicator::Finalize() {
  if (finalized_.load()) return InvalidArgument("the communicator has been finalized before");
  if (options_.blocking) {
    HZ_RETURN_IF_ERROR(AwaitReady());
    finalized_.store(true);
    return AwaitQuiescent();
  }
  const Status state = AsyncState();
  // The operation in progress may be done by the second look.
  HZ_RETURN_IF_ERROR(state.code() == Code::kInProgress ? CheckUsable() : state);
  finalized_.store(true);
  finalizing_.store(true);
  return AsyncState();
}

Status Communicator::Leave() {
  if (session_->inherited()) return Status::Ok();
  const bool waits = rank() >= 0 && !session_->lost();
  const Status status = waits ? AwaitQuiescent() : Status::Ok();
  if (!status.ok() || session_->lost()) DropCopies();
  if (session_->lost()) return Status::Ok();
  if (status.ok()) static_cast<void>(SettleOperation());
  const Status left = status.ok() ? RequestLeave() : status;
  // A daemon that is gone, or has taken this process for ended, keeps nothing of this rank.
  return session_->lost() ? Status::Ok() : left;
}

// The daemon answers at once and lets go of the rank later, so that other requests, an abort above
// all, need not wait.
Status Communicator::RequestLeave() {
  const uint32_t departures = slot().departures.load(std::memory_order_acquire);
  {
    const std::lock_guard lock(membership_mutex_);
    if (std::exchange(left_, true)) return Status::Ok();
    notices_->Close();
    LeaveRequest request;
    request.member = member_;
    HZ_RETURN_IF_ERROR(session_->Call<EmptyReply>(request).status());
  }
  return session_->WaitForDeparture(member_, departures);
}

Status Communicator::Abort() {
  if (aborted_.exchange(true)) return Status::Ok();
  aborted_flag_->store(true);
  if (session_->inherited()) return Status::Ok();
  // A daemon that is gone cannot hold this rank back.
  if (!session_->lost()) static_cast<void>(Abandon());
  // The daemon has ended every operation by now, so each thread inside is on its way out. Until
  // then it may still post, so the rank leaves only afterwards. The fence makes InOperation's
  // stores visible.
  HeavyFence();
  while (users_.load(std::memory_order_acquire) > 0 || posting_.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  DropCopies();
  if (!session_->lost()) static_cast<void>(RequestLeave());
  return Status::Ok();
}

Status Communicator::Abandon() {
  const std::lock_guard lock(membership_mutex_);
  if (left_) return Status::Ok();
  AbortRequest request;
  request.member = member_;
  return session_->Call<EmptyReply>(request).status();
}

Status Communicator::Revoke() {
  RevokeRequest request;
  request.member = member_;
  return session_->Call<EmptyReply>(request).status();
}

std::string Communicator::LastError() const {
  // The failure that broke the communicator takes precedence over earlier texts.
  if (!session_->inherited() && !SlotFailure().ok()) return slot().error.Get();
  return notices_->Last();
}

void Communicator::SetLastError(std::string text) {
  notices_->Keep(std::move(text));
}

Result<int> Communicator::AddPreMulSum(DataType type, uint64_t scalar_bits) {
  const auto unused = std::find_if(operators_.begin(), operators_.end(),
                                   [](const PreMulSum& op) { return !op.live; });
  const auto index = static_cast<int>(unused - operators_.begin());
  if (unused == operators_.end()) operators_.emplace_back();
  operators_[static_cast<size_t>(index)] = {true, type, scalar_bits};
  return kFirstUserOperator + index;
}

Status Communicator::RemovePreMulSum(int op) {
  const size_t index = static_cast<size_t>(op - kFirstUserOperator);
  if (op < kFirstUserOperator || index >= operators_.size() || !operators_[index].live) {
    return InvalidArgument("operator {} was not made on this communicator, or was destroyed", op);
  }
  operators_[index].live = false;
  return Status::Ok();
}

Result<uint64_t> Communicator::PreMulSumScalar(int op, DataType type) const {
  const size_t index = static_cast<size_t>(op - kFirstUserOperator);
  if (op < kFirstUserOperator || index >= operators_.size() || !operators_[index].live) {
    return InvalidArgument("operator {} was not made on this communicator, or was destroyed", op);
  }
  if (operators_[index].type != type) {
    return InvalidArgument("operator {} was made for {}, not for {}", op,
                           DataTypeName(operators_[index].type), DataTypeName(type));
  }
  return operators_[index].scalar_bits;
}

}  // namespace harmonaize
