#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "daemon/access/engine_rooms.h"
#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {

/// Passes calls to the engine from threads that may live longer than it does. Thread: any.
class EngineGate {
 public:
  explicit EngineGate(EngineRooms* rooms) : rooms_(rooms) {}

  /// Runs `call` on the engine's thread. Returns false if the engine is gone.
  bool Post(std::function<void(EngineRooms&)> call) {
    const std::lock_guard lock(mutex_);
    if (rooms_ == nullptr) return false;
    rooms_->loop().Post([rooms = rooms_, call = std::move(call)] { call(*rooms); });
    return true;
  }
  /// Makes Post refuse calls from now on, before the engine goes.
  void Shut() {
    const std::lock_guard lock(mutex_);
    rooms_ = nullptr;
  }

  /// Returns the number of the next session, from 1, for all receptions.
  uint32_t NextSession() {
    uint32_t number = 0;
    while (number == 0) number = next_session_.fetch_add(1, std::memory_order_relaxed);
    return number;
  }

 private:
  std::mutex mutex_;
  EngineRooms* rooms_;  // guarded by mutex_
  std::atomic<uint32_t> next_session_{1};
};

}  // namespace harmonaize::daemon
