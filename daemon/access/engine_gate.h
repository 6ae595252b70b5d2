#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "daemon/main/engine.h"

namespace harmonaize::daemon {

/// The way to the engine for threads that may live longer than it does. Thread safe.
class EngineGate {
 public:
  explicit EngineGate(Engine* engine) : engine_(engine) {}

  /// Runs `call` on the engine's thread. False when the engine is gone.
  bool Post(std::function<void(Engine&)> call) {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) return false;
    engine_->Post([engine = engine_, call = std::move(call)] { call(*engine); });
    return true;
  }
  void Shut() {
    const std::lock_guard lock(mutex_);
    engine_ = nullptr;
  }

  /// Numbers sessions, from 1, for all receptions.
  uint32_t NextSession() { return next_session_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  Engine* engine_;  // guarded by mutex_
  std::atomic<uint32_t> next_session_{1};
};

}  // namespace harmonaize::daemon
