#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/runtime/background.h"

namespace harmonaize::daemon {

/// Runs what takes long at the end of copies: memory is overwritten, and threads are waited for.
/// Each copy has a share of this object, so copies may outlive the daemon's rooms. Thread: any.
class PartEraser {
 public:
  /// Runs `call` on a thread of its own or, after End, at once. What `call` holds is released then.
  void Run(std::function<void()> call) {
    {
      const std::lock_guard lock(mutex_);
      if (background_ != nullptr) return background_->Post(std::move(call));
    }
    call();
  }

  /// Ends the thread. Requires: it is called before the last share goes, which may be the thread's.
  void End() {
    std::unique_ptr<Background> ended;
    {
      const std::lock_guard lock(mutex_);
      ended = std::move(background_);
    }
    // Without the lock: what the thread still does may come here.
    ended.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Background> background_ = std::make_unique<Background>();  // under mutex_
};

}  // namespace harmonaize::daemon
