#include "src/client/operation/copier.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/signals_blocked.h"

namespace harmonaize {
namespace {

/// Longest sleep in nanoseconds while there is something to copy. Then the daemon is checked.
constexpr uint64_t kTickNanoseconds = 100'000'000;

/// Longest time in nanoseconds for which the end of the process waits for a copy to stop: the copy
/// of a slice takes a thousandth of that, unless its pages do not come.
constexpr uint64_t kPatienceAtExitNanoseconds = 1'000'000'000;

/// Where the process might run when this library was loaded: later, its threads may be bound.
const cpu_set_t kProcessorsOfProcess = [] {
  cpu_set_t processors;
  if (sched_getaffinity(getpid(), sizeof processors, &processors) != 0) CPU_ZERO(&processors);
  return processors;
}();

/// Makes a thread that gets no signals. Returns an error number, or 0.
int MakeThread(void* (*body)(void*), void* argument) {
  const SignalsBlocked blocked;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

bool IsOfUse(const std::shared_ptr<CopyQueue>& queue) {
  return queue->has_windows() && !queue->session().lost();
}

}  // namespace

Copier& Copier::Get() {
  static Copier* const copier = [] {
    auto* const made = new Copier();
    WatchForks();
    std::atexit([] { Get().StopForGood(); });
    return made;
  }();
  return *copier;
}

void Copier::WatchForks() {
  pthread_atfork([] { Get().BeforeFork(); }, [] { Get().Unlock(); }, [] { Get().ForgetParent(); });
}

void Copier::BeforeFork() {
  wanted_.fetch_add(1);
  copying_.lock();
  wanted_.fetch_sub(1);
  mutex_.lock();
}

void Copier::Unlock() {
  mutex_.unlock();
  copying_.unlock();
}

// The parent's thread is not here, and nothing may touch what it copied for: threads that are not
// here either may hold its locks.
void Copier::ForgetParent() {
  for (std::vector<std::shared_ptr<CopyQueue>>* queues : {&queues_, &attended_}) {
    std::move(queues->begin(), queues->end(), std::back_inserter(parents_));
    queues->clear();
  }
  started_ = false;
  stopped_.store(false);
  wanted_.store(0);
  new (&woken_condition_) std::condition_variable();  // the parent's thread may sleep on the other
  Unlock();
}

// At the end of the process, buffers may be destroyed as the program's static objects are. Those
// that were made after the first host stream are destroyed before this.
void Copier::StopForGood() {
  stopped_.store(true);
  const uint64_t deadline_ns = MonotonicNanoseconds() + kPatienceAtExitNanoseconds;
  while (!copying_.try_lock()) {
    if (MonotonicNanoseconds() >= deadline_ns) return;
    sched_yield();
  }
  copying_.unlock();
}

void Copier::Start() {
  const std::lock_guard lock(mutex_);
  if (started_) return;
  const int error = MakeThread(&RunThread, this);
  started_ = error == 0;
  if (started_ || std::exchange(refused_, true)) return;
  Log(LogLevel::kWarning, kLogInit,
      "no thread that copies private data of host streams: {}. It is copied only while the program "
      "waits for a stream, or asks",
      strerror(error));
}

void Copier::Attend(const std::shared_ptr<CopyQueue>& queue) {
  Start();
  const std::lock_guard lock(mutex_);
  // With TakeQueues, which resets the flag before it looks for windows: either it finds these, or
  // the flag is seen reset here. Both exchanges acquire and release.
  if (!queue->attended().exchange(true, std::memory_order_acq_rel)) attended_.push_back(queue);
  woken_ = true;
  woken_condition_.notify_one();
}

void Copier::Wake(Session& session) {
  {
    const std::lock_guard lock(mutex_);
    if (!started_) return;
    woken_ = true;
    woken_condition_.notify_one();
  }
  session.TellNews();
}

void* Copier::RunThread(void* copier) {
  pthread_setname_np(pthread_self(), "hz-copier");
  // Fails where the set was narrowed meanwhile, or could not be read. Then the maker's counts.
  sched_setaffinity(0, sizeof kProcessorsOfProcess, &kProcessorsOfProcess);
  static_cast<Copier*>(copier)->Run();
  return nullptr;
}

void Copier::Run() {
  copying_.lock();
  while (true) {
    TakeQueues();
    bool copied = false;
    CopyQueue* undriven = nullptr;
    for (const std::shared_ptr<CopyQueue>& queue : queues_) {
      if (queue->driven() || stopped_.load()) continue;
      undriven = queue.get();
      copied = queue->Step() || copied;
    }
    if (copied) {
      LetOthersPass();
    } else if (undriven == nullptr) {
      SleepUntilWoken();
    } else {
      SleepUntilNews(undriven->session());
    }
  }
}

void Copier::TakeQueues() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    queues_.insert(queues_.end(), attended_.begin(), attended_.end());
    attended_.clear();
  }
  std::erase_if(queues_, [](const std::shared_ptr<CopyQueue>& queue) {
    if (IsOfUse(queue)) return false;
    queue->attended().exchange(false, std::memory_order_acq_rel);
    return !IsOfUse(queue) || queue->attended().exchange(true, std::memory_order_acq_rel);
  });
}

void Copier::LetOthersPass() {
  if (wanted_.load() == 0) return;
  copying_.unlock();
  while (wanted_.load() > 0) sched_yield();
  copying_.lock();
}

void Copier::SleepUntilWoken() {
  copying_.unlock();
  {
    std::unique_lock lock(mutex_);
    woken_condition_.wait(lock, [this] { return woken_; });
  }
  copying_.lock();
}

void Copier::SleepUntilNews(Session& session) {
  const uint32_t word = session.ExpectNews();
  const bool has_work = std::any_of(queues_.begin(), queues_.end(), [](const auto& queue) {
    return !queue->driven() && queue->CanStep();
  });
  {
    const std::lock_guard lock(mutex_);
    if (woken_ || has_work) return;
  }
  copying_.unlock();
  const uint64_t slept_from_ns = MonotonicNanoseconds();
  session.SleepUntilNews(word, kTickNanoseconds);
  const bool ticked = MonotonicNanoseconds() - slept_from_ns >= kTickNanoseconds;
  copying_.lock();
  if (ticked) static_cast<void>(session.CheckAlive());
}

}  // namespace harmonaize
