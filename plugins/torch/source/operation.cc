#include "plugins/torch/source/operation.h"

#include <ATen/core/jit_type.h>

#include <thread>
#include <utility>

#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/progress.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often a wait with a time of its own looks: an eighth of the time that it has lasted, within
// these bounds. The lower one is about what a short sleep takes anyway.
constexpr std::chrono::microseconds kShortestLook{50};
constexpr std::chrono::microseconds kLongestLook{1000};

// How often an operation that waits asks what the library says of late ranks. The daemon says it
// after a second at the earliest, and not often.
constexpr milliseconds kNoteInterval{100};

c10::TypePtr FutureType(bool nested) {
  c10::TypePtr tensors = c10::ListType::create(c10::TensorType::get());
  return nested ? c10::TypePtr(c10::ListType::create(tensors)) : tensors;
}

std::string Seconds(milliseconds time) {
  const auto count = time.count();
  if (count % 1000 == 0) return std::to_string(count / 1000) + " s";
  return std::to_string(count) + " ms";
}

}  // namespace

Operation::Operation(int rank, OperationPlan plan, std::shared_ptr<Communicator> communicator)
    : Work(rank, plan.type, plan.title, plan.inputs),
      plan_(std::move(plan)),
      started_(Clock::now()),
      future_(c10::make_intrusive<c10::ivalue::Future>(FutureType(plan_.nested_outputs))),
      communicator_(std::move(communicator)) {}

void Operation::BeKept() {
  std::shared_ptr<Communicator> keeper;
  {
    const std::lock_guard lock(state_mutex_);
    if (state_ != State::kKept) return;
    is_kept_ = true;
    keeper = communicator_;
  }
  keeper->Keep(c10::intrusive_ptr<Operation>::reclaim_copy(this));
}

void Operation::Go() {
  if (const auto kept_by = communicator()) kept_by->GoOn();
  if (!Advance(started_)) {
    Progress::Get().Watch(c10::intrusive_ptr<Operation>::reclaim_copy(this));
  }
}

std::shared_ptr<Communicator> Operation::communicator() const {
  const std::lock_guard lock(state_mutex_);
  return communicator_;
}

Launched Operation::Launch(ncclComm_t handle) {
  const std::lock_guard lock(state_mutex_);
  if (state_ != State::kKept) return Launched::kYes;
  StreamPool& streams = Progress::Get().streams();
  try {
    stream_ = streams.Take();
    if (stream_ == nullptr) return Launched::kNoStream;
    const ncclResult_t result = plan_.post(handle, stream_);
    if (result == ncclSuccess || result == ncclInProgress) {
      state_ = State::kInFlight;
      return Launched::kYes;
    }
    unlaunched_ = MakeError(Describe(plan_.description, result, handle));
  } catch (...) {
    unlaunched_ = std::current_exception();
  }
  // The stream has nothing on it: a call that fails has no effect.
  if (stream_ != nullptr) streams.Give(std::exchange(stream_, nullptr), /*failed=*/true);
  state_ = State::kEnded;
  return Launched::kNot;
}

void Operation::Refuse(const std::string& reason) {
  const std::lock_guard lock(state_mutex_);
  if (state_ != State::kKept) return;
  state_ = State::kEnded;
  unlaunched_ = MakeError(reason);
}

void Operation::EndUnlaunched() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(state_mutex_);
    error = std::exchange(unlaunched_, nullptr);
  }
  if (error) EndWith(error);
}

void Operation::End(const std::string& reason) {
  Refuse(reason);
  EndUnlaunched();
}

bool Operation::Advance(Clock::time_point now) {
  if (HasEnded() || QueryStream()) return true;
  ActWhileWaiting(now);
  NoteWord(now);
  EndIfGroupIsBroken();
  if (const auto launched_on = communicator()) launched_on->EndWithParent();
  if (now - started_ >= plan_.timeout && !expired_.exchange(true)) Expire();
  return HasEnded();
}

bool Operation::QueryStream() {
  ncclResult_t result = ncclInProgress;
  {
    const std::lock_guard lock(state_mutex_);
    if (state_ != State::kInFlight || awaited_) return false;
    result = Library::Get().hzStreamQuery(stream_);
    if (result == ncclInProgress) return false;
    state_ = State::kEnded;
  }
  Complete(result);
  return true;
}

void Operation::SynchronizeStream() {
  {
    const std::lock_guard lock(state_mutex_);
    if (state_ != State::kInFlight || awaited_) return;
    awaited_ = true;
  }
  const ncclResult_t result = Library::Get().hzStreamSynchronize(stream_);
  {
    const std::lock_guard lock(state_mutex_);
    awaited_ = false;
    state_ = State::kEnded;
  }
  Complete(result);
}

// Only the thread that has set kEnded comes here.
void Operation::Complete(ncclResult_t result) {
  std::exception_ptr error = result == ncclSuccess ? nullptr : ErrorOf(result);
  Progress::Get().streams().Give(std::exchange(stream_, nullptr), result != ncclSuccess);
  if (error == nullptr && plan_.finish) {
    try {
      plan_.finish();
    } catch (...) {
      error = std::current_exception();
    }
  }
  EndWith(error);
}

// An operation that a communicator keeps ends with it.
void Operation::EndIfGroupIsBroken() {
  std::shared_ptr<Communicator> group;
  {
    const std::lock_guard lock(state_mutex_);
    if (state_ != State::kKept || is_kept_) return;
    group = communicator_;
  }
  const std::string why = group->WhyBroken();
  if (!why.empty()) End(why);
}

std::exception_ptr Operation::ErrorOf(ncclResult_t result) {
  const auto failed = communicator();
  const std::string failure = failed == nullptr ? "" : failed->failure();
  if (!failure.empty()) return MakeError(failure);
  // This thread has just got the result, so the library's last word to it is about this operation.
  // Where another rank gave up first, that word does not say for whom it waited.
  const std::string text = Describe(plan_.description, result, nullptr);
  const std::string noted = Noted();
  return MakeError(noted.empty() ? text : text + "; before that, " + noted);
}

void Operation::Choose(int source, std::function<ncclResult_t(ncclComm_t, cudaStream_t)> post,
                       const std::shared_ptr<Communicator>& communicator) {
  {
    const std::lock_guard lock(state_mutex_);
    if (state_ != State::kKept) return;
    plan_.source_rank = source;
    plan_.post = std::move(post);
    communicator_ = communicator;
  }
  BeKept();
}

void Operation::WhileWaiting(milliseconds first, milliseconds longest, std::function<void()> act) {
  const std::lock_guard lock(state_mutex_);
  waiting_ = {first, longest, Clock::now() + first, std::move(act)};
}

void Operation::ActWhileWaiting(Clock::time_point now) {
  std::function<void()> act;
  {
    const std::lock_guard lock(state_mutex_);
    if (!waiting_.act || now < waiting_.next) return;
    waiting_.interval = std::min(waiting_.interval * 2, waiting_.longest);
    waiting_.next = now + waiting_.interval;
    act = waiting_.act;
  }
  act();
}

void Operation::NoteWord(Clock::time_point now) {
  if (now - started_ < kNoteInterval) return;
  {
    const std::lock_guard lock(state_mutex_);
    if (now - noted_at_ < kNoteInterval) return;
    noted_at_ = now;
  }
  const auto asked = communicator();
  const std::string word = asked == nullptr ? "" : asked->LastWord();
  if (word.find("has waited") == std::string::npos) return;
  const std::lock_guard lock(state_mutex_);
  noted_ = word;
}

std::string Operation::Noted() {
  const std::lock_guard lock(state_mutex_);
  return noted_;
}

void Operation::Expire() {
  const std::string noted = Noted();
  const std::string reason = plan_.description + " ended by its timeout of " +
                             Seconds(plan_.timeout) + (noted.empty() ? "" : ": " + noted);
  if (const auto failed = communicator()) failed->Fail(reason);
  End(reason);  // Where no communicator keeps it.
}

bool Operation::HasEnded() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

void Operation::EndWith(std::exception_ptr error) {
  ReleaseParts();
  finish(error);
  bool taken = false;
  {
    const std::lock_guard lock(state_mutex_);
    taken = future_is_taken_;
    future_is_settled_ = !taken;
  }
  // Who takes the future may have something called then, which may wait for another operation.
  if (taken && Progress::IsOwnThread()) {
    const auto self = c10::intrusive_ptr<Operation>::reclaim_copy(this);
    if (Progress::Get().completions().Add([self, error] { self->SettleFuture(error); })) return;
  }
  SettleFuture(error);
}

// A group may come again while somebody holds an old Work: what belongs to the old one goes now.
void Operation::ReleaseParts() {
  std::function<ncclResult_t(ncclComm_t, cudaStream_t)> post;
  std::function<void()> finish_call;
  std::function<void()> act;
  std::shared_ptr<Communicator> released;
  // Tensors may ask for Python's lock when they go, so they go without ours.
  const std::lock_guard lock(state_mutex_);
  std::swap(post, plan_.post);
  std::swap(finish_call, plan_.finish);
  std::swap(act, waiting_.act);
  std::swap(released, communicator_);
}

void Operation::SettleFuture(const std::exception_ptr& error) {
  if (error) {
    future_->setError(error);
    return;
  }
  if (plan_.nested_outputs) {
    c10::List<c10::List<at::Tensor>> lists;
    for (const std::vector<at::Tensor>& list : plan_.outputs)
      lists.push_back(c10::List<at::Tensor>(list));
    future_->markCompleted(c10::IValue(lists));
  } else {
    future_->markCompleted(c10::IValue(c10::List<at::Tensor>(result())));
  }
}

bool Operation::isCompleted() {
  return Advance(Clock::now());
}

bool Operation::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr Operation::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

int Operation::sourceRank() const {
  return plan_.source_rank;
}

std::vector<at::Tensor> Operation::result() {
  std::vector<at::Tensor> tensors;
  for (const std::vector<at::Tensor>& list : plan_.outputs) {
    tensors.insert(tensors.end(), list.begin(), list.end());
  }
  return tensors;
}

bool Operation::wait(milliseconds timeout) {
  const Clock::time_point begun = Clock::now();
  if (timeout == kNoTimeout && !Progress::Get().IsStopped()) SynchronizeStream();
  std::unique_lock lock(mutex_);
  while (!completed_) {
    const auto waited = Clock::now() - begun;
    if (timeout != kNoTimeout && waited >= timeout) {
      lock.unlock();
      NoteWord(Clock::now());
      const std::string noted = Noted();
      ThrowError("Waiting for " + plan_.description + " ended by a timeout of " + Seconds(timeout) +
                 ", and the operation goes on" + (noted.empty() ? "" : ": " + noted));
    }
    const auto look = std::chrono::duration_cast<std::chrono::microseconds>(waited / 8);
    cv_.wait_for(lock, std::clamp(look, kShortestLook, kLongestLook));
    lock.unlock();
    if (Progress::Get().IsStopped()) {
      AdvanceAlone();
    } else if (timeout == kNoTimeout) {
      SynchronizeStream();
    } else {
      QueryStream();
    }
    lock.lock();
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

// Nobody else goes on with what is kept, and ends what takes too long.
void Operation::AdvanceAlone() {
  if (const auto forming = communicator()) static_cast<void>(forming->Advance());
  static_cast<void>(Advance(Clock::now()));
}

void Operation::synchronize() {
  wait();
}

void Operation::abort() {
  const std::string reason = plan_.description + " was aborted";
  if (const auto aborted = communicator()) aborted->Fail(reason);
  End(reason);
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::getFuture() {
  {
    const std::lock_guard lock(state_mutex_);
    future_is_taken_ = true;
    if (!future_is_settled_) return future_;
  }
  // Who settled it did not know of the caller, which may not be called back by that thread.
  while (!future_->completed()) std::this_thread::yield();
  return future_;
}

}  // namespace harmonaize_torch
