#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace harmonaize::daemon {

/// What a cloud announces for this host, in the same words for all clouds.
struct CloudNotice {
  enum class Kind : uint8_t {
    kMaintenance,  ///< The host pauses, reboots or moves.
    kReclaim,      ///< The host is taken away (spot, preemption, termination).
    kRiskOfReclaim,  ///< The host may be taken away soon; no time is set.
    kUnhealthy,    ///< The host is failing.
  };
  enum class State : uint8_t { kScheduled, kStarted, kCompleted, kWithdrawn };

  std::string source;  ///< "azure", "aws", "gcp" or "kubernetes".
  std::string id;      ///< The source's own, the same for all news of one notice.
  Kind kind = Kind::kMaintenance;
  State state = State::kScheduled;
  std::optional<int64_t> not_before_seconds = std::nullopt;  ///< Since 1970; none: not known, or now.
  std::optional<int64_t> duration_seconds = std::nullopt;
  /// Whether ranks can be moved elsewhere before, and go on after it where they are.
  bool survives = false;
  std::string text;  ///< For operators; clean, one line.
};

}  // namespace harmonaize::daemon
