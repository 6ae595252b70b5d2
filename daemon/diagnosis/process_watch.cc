#include "daemon/diagnosis/process_watch.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "daemon/diagnosis/process_look.h"
#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Time between the two looks at a process: ten clock ticks, in which a process that runs a fifth
/// of the time is told from one that sleeps.
constexpr std::chrono::milliseconds kBetweenLooks(100);

/// Most calls of Look that wait. The engine makes a few a second.
constexpr size_t kMostJobsWaiting = 16;

/// Most processes whose first number of kills is kept; beyond it all are forgotten, and learned
/// anew.
constexpr size_t kMostKept = 8192;

/// Returns whether the process is the one that the descriptor stands for, and has not ended. A
/// number may soon stand for another process, so this is asked after reading.
bool IsStillThere(const FileDescriptor& pidfd) {
  if (!pidfd.valid()) return false;
  pollfd end{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&end, 1, 0) == 0;
}

}  // namespace

ProcessWatch::~ProcessWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ProcessWatch::Look(std::vector<Wanted> wanted, Answer answer) {
  if (wanted.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMostJobsWaiting) return;
    jobs_.push_back({std::move(wanted), std::move(answer)});
  }
  changed_.notify_one();
}

void ProcessWatch::Run() {
  pthread_setname_np(pthread_self(), "hz-diagnosis");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    GuardedAndLogged("a look at processes", [&] {
      std::vector<Seen> seen = LookTwice(job.wanted);
      post_([answer = std::move(job.answer), seen = std::move(seen)] { answer(seen); });
    });
    job = {};  // its descriptors are closed here, and not while the lock is held
    lock.lock();
  }
}

std::vector<ProcessWatch::Seen> ProcessWatch::LookTwice(const std::vector<Wanted>& wanted) {
  std::vector<std::optional<ProcessSight>> first;
  std::vector<uint64_t> looked_ns;
  for (const Wanted& one : wanted) {
    looked_ns.push_back(MonotonicNanoseconds());
    first.push_back(one.process > 0 ? LookAtProcess(one.process) : std::nullopt);
  }
  std::vector<Seen> seen;
  if (!WaitBetween()) return seen;
  if (oom_kills_.size() > kMostKept) oom_kills_.clear();
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& one = wanted[i];
    const auto second = first[i].has_value() ? LookAtProcess(one.process) : std::nullopt;
    Seen& result = seen.emplace_back(Seen{.number = one.number});
    if (!second.has_value() || !IsStillThere(one.pidfd)) continue;
    const auto known = oom_kills_.emplace(one.number, first[i]->oom_kills).first;
    const double seconds = static_cast<double>(MonotonicNanoseconds() - looked_ns[i]) * 1e-9;
    result.doing = WhatItDoes(*first[i], *second, static_cast<uint64_t>(seconds * ticks_per_second),
                              known->second);
  }
  return seen;
}

// Returns false if the watch ends meanwhile.
bool ProcessWatch::WaitBetween() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kBetweenLooks, [this] { return stopping_; });
}

}  // namespace harmonaize::daemon
