#include "plugins/torch/source/errands.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

#include "plugins/torch/source/progress.h"
#include "plugins/torch/source/signals_blocked.h"

namespace harmonaize_torch {
namespace {

// Between two rounds. Each errand is a message to another process a round.
constexpr std::chrono::milliseconds kRound{3};

bool IsDone(const Errands::Errand& errand) {
  try {
    return errand();
  } catch (const std::exception&) {
    return true;  // The store is gone. Who waits for the answer has a time of its own.
  }
}

}  // namespace

bool Errands::Add(Errand errand) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  arrived_.push_back(std::move(errand));
  if (!started_) {
    const SignalsBlocked blocked;
    std::thread thread([this] { Run(); });
    pthread_setname_np(thread.native_handle(), "hz-torch-store");
    thread.detach();
    started_ = true;
  }
  arrival_.notify_one();
  return true;
}

void Errands::Stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  arrival_.notify_one();
  if (started_) end_.wait_for(lock, patience, [this] { return ended_; });
}

void Errands::Run() {
  Progress::SetOwnThread();
  while (TakeArrived()) {
    errands_.erase(std::remove_if(errands_.begin(), errands_.end(), IsDone), errands_.end());
  }
  // What is left stays with this object, which is never destroyed.
  const std::lock_guard lock(mutex_);
  ended_ = true;
  end_.notify_all();
}

// Pauses, and takes over what has come meanwhile. Returns false when the thread is to end.
bool Errands::TakeArrived() {
  std::unique_lock lock(mutex_);
  if (errands_.empty()) {
    arrival_.wait(lock, [this] { return stopping_ || !arrived_.empty(); });
  } else {
    arrival_.wait_for(lock, kRound, [this] { return stopping_; });
  }
  std::move(arrived_.begin(), arrived_.end(), std::back_inserter(errands_));
  arrived_.clear();
  return !stopping_;
}

}  // namespace harmonaize_torch
