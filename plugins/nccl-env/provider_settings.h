#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ipc/nccl_settings.h"

namespace harmonaize::nccl_env {

/// Which of the provider's settings the tenant allows.
class Permission {
 public:
  /// Reads the value of HARMONAIZE_NCCL_SETTINGS: "all", "none", or names between commas. nullptr
  /// and "" stand for "all". Words that are neither allow nothing.
  explicit Permission(const char* text);

  bool Allows(std::string_view name) const;
  bool allows_nothing() const { return !all_ && names_.empty(); }
  /// Returns the words that name no setting, for a warning.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  bool all_ = false;
  std::vector<std::string> names_;
  std::vector<std::string> unknown_;
};

/// Asks the daemon of this host for what the provider sets for NCCL, and returns it in the order of
/// the names. Takes kAnswerWithinMs at most, or twice that where a daemon takes no connections.
/// Errors: there is no trusted daemon, or none that has this request, or no answer in good time.
Result<std::vector<NcclSetting>> AskForSettings();

/// Time, in milliseconds, within which the daemon answers. A program's first call of NCCL waits for
/// it, and what comes later is not waited for: a stopped daemon must not stop programs that can do
/// without it. A daemon that runs answers in much less than a millisecond; a busy host may take
/// longer.
inline constexpr int kAnswerWithinMs = 1000;

}  // namespace harmonaize::nccl_env
