#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// The secrets by which a dashboard knows its user's browser. Any user of the host can connect to
/// its loopback port, so a browser shows a secret that only this program's user was told. The
/// secret holds once: the browser has it exchanged for a session. Secrets are 256 random bits of
/// the kernel's, and comparisons take the same time wherever texts differ. Thread: one.
class DashboardSecrets {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time that a link waits for its browser: enough to copy it to another machine.
  static constexpr std::chrono::minutes kLinkHolds{10};
  /// Sessions that hold at a time. A further one ends the oldest, whose tab was most likely closed
  /// or loaded again.
  static constexpr size_t kMostSessions = 8;

  explicit DashboardSecrets(std::function<Clock::time_point()> now = Clock::now)
      : now_(std::move(now)) {}

  /// Returns the secret of a new link. The link before it ends. Errors: kSystemError if the kernel
  /// gives no random bytes.
  Result<std::string> NewLink();
  /// Returns a new session for the secret of the link, which ends with that; nullopt for any other
  /// text, or when the link has waited for too long.
  Result<std::optional<std::string>> Exchange(std::string_view secret);
  /// Returns whether a session of this text holds.
  bool Holds(std::string_view session) const;

 private:
  std::function<Clock::time_point()> now_;
  std::string link_;  // "": none
  Clock::time_point link_until_{};
  std::deque<std::string> sessions_;
};

}  // namespace harmonaize
