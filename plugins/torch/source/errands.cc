#include "plugins/torch/source/errands.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

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

void Errands::Add(Errand errand) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  arrived_.push_back(std::move(errand));
  if (!started_) {
    const SignalsBlocked blocked;
    std::thread thread([this] { Run(); });
    pthread_setname_np(thread.native_handle(), "hz-torch-store");
    thread.detach();
    started_ = true;
  }
  arrival_.notify_one();
}

void Errands::Stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  arrival_.notify_one();
}

void Errands::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto arrived = [this] { return stopping_ || !arrived_.empty(); };
      if (errands_.empty()) {
        arrival_.wait(lock, arrived);
      } else {
        arrival_.wait_for(lock, kRound, [this] { return stopping_; });
      }
      if (stopping_) return;
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(errands_));
      arrived_.clear();
    }
    errands_.erase(std::remove_if(errands_.begin(), errands_.end(), IsDone), errands_.end());
  }
}

}  // namespace harmonaize_torch
