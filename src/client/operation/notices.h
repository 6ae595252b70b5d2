#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "src/client/session/session.h"

namespace harmonaize {

/// What a rank is told in words about its communicator: the daemon's notices of late ranks, and the
/// text of the last failure. Host streams that the communicator uses share it, and may outlive the
/// communicator. Thread: any.
class Notices {
 public:
  Notices(std::shared_ptr<Session> session, uint32_t member);
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// Logs the daemon's newest notice, and keeps it as the last text, if it was not passed on yet.
  void PassOn();
  /// Ends the notices: the member may stand for another rank from now on.
  void Close() { closed_.store(true, std::memory_order_relaxed); }

  /// Returns the text that was kept last, or "".
  std::string Last() const;
  void Keep(std::string text);

 private:
  const std::shared_ptr<Session> session_;
  const uint32_t member_;
  std::atomic<uint32_t> seen_;  ///< Version of the notice that was passed on last.
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;  // guards the one below
  std::string last_;
};

}  // namespace harmonaize
