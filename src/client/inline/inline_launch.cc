#include "src/client/inline/inline_launch.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/pause.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/stream.h"

namespace harmonaize {
namespace {

/// Number of looks before a waiter yields: about as long as it takes to wake a thread.
constexpr int kSpins = 180;
/// Number of looks with more ranks than processors: few, because the awaited rank may need this
/// very processor.
constexpr int kCrowdedSpins = 4;
/// Looks at first without a pause between them: the others are often there already, or about to
/// come.
constexpr int kFirstSpins = 32;
/// Nanoseconds for which a waiter only yields, which costs a microsecond if another thread can run
/// and next to nothing if none can. Then it sleeps.
constexpr uint64_t kYieldNanoseconds = 100'000;
/// Longest sleep in nanoseconds, after which a sleeper checks the daemon and the other ranks.
constexpr uint64_t kTickNanoseconds = 20'000'000;

/// Nanoseconds after which an operation whose caller blocks anyway goes to the daemon: such a
/// caller does not care about the path.
constexpr uint64_t kBlockingWaitNanoseconds = 20'000'000;
/// Nanoseconds after which an operation on a stream, or of a nonblocking communicator, goes to the
/// daemon: its caller expects the call to return at once.
constexpr uint64_t kAsynchronousWaitNanoseconds = 50'000;

uint64_t YieldNanoseconds(Looking looking) {
  if (looking == Looking::kNever) return 0;
  return looking == Looking::kForLong ? kLongLookNanoseconds : kYieldNanoseconds;
}

}  // namespace

Status InlineLaunch::Run(std::span<const Operation> operations, const QuickAttempt& attempt,
                         std::vector<Operation>* offloaded) {
  offloaded->clear();
  operations_.clear();
  withdrawn_ = false;
  withdraw_after_ns_ = kBlockingWaitNanoseconds;
  crowded_ = false;
  looking_ = operations.front().communicator->session().looking();
  if (attempt.state == QuickAttempt::State::kPosted) {
    ResumeAll(operations, attempt.done);
  } else if (AllAdmitted(operations)) {
    StartAll(operations);
  } else {
    for (const Operation& operation : operations) {
      if (operation.communicator->inline_path() != nullptr) InlineOperation::Decline(operation);
    }
    offloaded->assign(operations.begin(), operations.end());
    return Status::Ok();
  }
  HZ_RETURN_IF_ERROR(AwaitAll());
  for (const InlineOperation& operation : operations_) {
    if (operation.state() == InlineOperation::State::kOffload) {
      offloaded->push_back(operation.operation());
    }
  }
  return Status::Ok();
}

void InlineLaunch::StartAll(std::span<const Operation> operations) {
  for (const Operation& operation : operations) {
    operations_.emplace_back(operation);
    operations_.back().Start();
  }
}

// The operations are of one communicator, and their callers wait.
void InlineLaunch::ResumeAll(std::span<const Operation> operations, uint32_t done) {
  crowded_ = operations.front().communicator->inline_path()->crowded();
  for (size_t i = 0; i < operations.size(); ++i) {
    if ((done >> i & 1) != 0) continue;
    operations_.emplace_back(operations[i]);
    operations_.back().Resume();
  }
}

bool InlineLaunch::Admits(const Operation& operation) {
  InlinePath* const path = operation.communicator->inline_path();
  if (path == nullptr || operation.offload || !path->Admits(operation)) return false;
  // Operations that the stream holds come first. They are worth a short wait: as long as the stream
  // is never idle, everything goes to the daemon.
  if (operation.stream != nullptr && !operation.stream->IdleSoon()) return false;
  crowded_ = crowded_ || path->crowded();
  if (operation.stream != nullptr || !operation.communicator->options().blocking) {
    withdraw_after_ns_ = kAsynchronousWaitNanoseconds;
  }
  return true;
}

bool InlineLaunch::AllAdmitted(std::span<const Operation> operations) {
  size_t admitted = 0;
  for (const Operation& operation : operations) {
    if (!Admits(operation)) break;
    InlinePath::Sequence& sequence = InlineOperation::SequenceOf(operation);
    // A second operation of the same sequence would have to wait for the first.
    if (sequence.taken) break;
    sequence.taken = true;
    ++admitted;
  }
  for (const Operation& operation : operations.first(admitted)) {
    InlineOperation::SequenceOf(operation).taken = false;
  }
  return admitted == operations.size();
}

Status InlineLaunch::AwaitAll() {
  progress_ = 0;
  spins_ = 0;
  waiting_since_ns_ = 0;
  const Status health = AdvanceUntilDone();
  if (told_ != nullptr) TakeBackWait();
  HZ_RETURN_IF_ERROR(health);
  for (InlineOperation& operation : operations_) {
    if (operation.state() == InlineOperation::State::kFailed) return GiveUp(operation);
  }
  return Status::Ok();
}

Status InlineLaunch::AdvanceUntilDone() {
  while (!AdvanceAll()) {
    const Status health = Pause();
    if (health.ok()) continue;
    // A rank that has done its part may exit before this thread looks again. What it left behind is
    // visible here, because the daemon told of the exit after it.
    if (!AdvanceAll()) return health;
  }
  return Status::Ok();
}

// Abandons the communicator: other ranks count on this one, which cannot go on, and must not wait.
Status InlineLaunch::GiveUp(const InlineOperation& operation) {
  Status failure = operation.failure();
  static_cast<void>(operation.operation().communicator->Abandon());
  return failure;
}

// Advances all operations. Returns whether there is nothing left to wait for.
bool InlineLaunch::AdvanceAll() {
  bool waiting = false;
  bool offloads = false;
  for (InlineOperation& operation : operations_) {
    const InlineOperation::State state = operation.Advance();
    waiting = waiting || state == InlineOperation::State::kWaiting;
    offloads = offloads || state == InlineOperation::State::kOffload;
  }
  if (!waiting) return true;
  if (offloads && !withdrawn_) WithdrawAll();
  return false;
}

void InlineLaunch::WithdrawAll() {
  withdrawn_ = true;
  for (InlineOperation& operation : operations_) operation.Withdraw();
}

Status InlineLaunch::Pause() {
  const bool few = crowded_ || looking_ == Looking::kNever;
  if (++spins_ < (few ? kCrowdedSpins : kSpins)) {
    if (spins_ > kFirstSpins) PauseBriefly();
    return Status::Ok();
  }
  const uint64_t now = MonotonicNanoseconds();
  if (const uint64_t progress = Progress(); waiting_since_ns_ == 0 || progress != progress_) {
    progress_ = progress;
    spins_ = 0;
    waiting_since_ns_ = now;
    if (told_ != nullptr) TakeBackWait();
  }
  const uint64_t waited = now - waiting_since_ns_;
  if (waited > withdraw_after_ns_ && !withdrawn_) {
    WithdrawAll();
    return Status::Ok();
  }
  if (waited < YieldNanoseconds(looking_)) {
    sched_yield();
    return Status::Ok();
  }
  const auto waiting =
      std::find_if(operations_.begin(), operations_.end(), [](const InlineOperation& operation) {
        return operation.state() == InlineOperation::State::kWaiting;
      });
  if (waiting == operations_.end()) return Status::Ok();  // withdrawn a moment ago
  HZ_RETURN_IF_ERROR(waiting->operation().communicator->CheckHealth());
  if (waited >= kInlineToldAfterNanoseconds) TellWait(*waiting);
  SleepOn(*waiting);
  return Status::Ok();
}

// Tells the daemon of a wait, which it otherwise does not see, and passes on what the daemon says.
void InlineLaunch::TellWait(const InlineOperation& operation) {
  Communicator& communicator = *operation.operation().communicator;
  if (told_ == &operation) {
    operation.path().TellAwaited(operation.Wait());
  } else {
    if (told_ != nullptr) TakeBackWait();
    told_ = &operation;
    operation.path().TellWait(communicator.session(), operation.Wait());
  }
  static_cast<void>(communicator.OnTick());
}

void InlineLaunch::TakeBackWait() {
  const InlineOperation& told = *std::exchange(told_, nullptr);
  Communicator& communicator = *told.operation().communicator;
  told.path().TakeBackWait(communicator.session());
  // Also what was said after the last look.
  static_cast<void>(communicator.OnTick());
}

void InlineLaunch::SleepOn(InlineOperation& operation) {
  InlinePath& path = operation.path();
  const uint32_t announced = path.AnnounceSleep();
  if (operation.Advance() != InlineOperation::State::kWaiting || Progress() != progress_) {
    path.CancelSleep();
    return;
  }
  // If several operations wait, news of the others do not wake this thread, so it looks soon.
  path.Sleep(announced, operations_.size() > 1 ? kTickNanoseconds / 20 : kTickNanoseconds);
}

uint64_t InlineLaunch::Progress() const {
  uint64_t sum = 0;
  for (const InlineOperation& operation : operations_) sum += operation.progress();
  return sum;
}

}  // namespace harmonaize
