#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harmonaize::daemon {

/// Longest id of a notice, in bytes. The ids of clouds have up to 36 bytes; a taint's name has up
/// to 317, but those that are translated are short. A time may be added.
inline constexpr size_t kMostNoticeIdBytes = 128;
/// Longest text of a notice, in bytes: a line that an operator reads.
inline constexpr size_t kMostNoticeTextBytes = 256;

/// What a cloud announces for this host, in the same words for all clouds.
struct CloudNotice {
  enum class Kind : uint8_t {
    kMaintenance,     ///< The host pauses, reboots or moves.
    kReclaim,         ///< The host is taken away (spot, preemption, termination).
    kRiskOfReclaim,   ///< The host may be taken away soon; no time is set.
    kUnhealthy,       ///< The host is failing.
    kServiceRestart,  ///< This daemon restarts. No cloud announces that.
  };
  /// A notice begins with kScheduled or kStarted, never goes back from kStarted to kScheduled, and
  /// ends with one of the last two.
  enum class State : uint8_t {
    kScheduled,  ///< It is to come.
    kStarted,    ///< It is under way, or holds now.
    kCompleted,  ///< It has happened, or holds no longer.
    kWithdrawn,  ///< It did not happen, and will not.
  };

  std::string source;  ///< "azure", "aws", "gcp", "kubernetes" or, by hand, "operator".
  /// The same for all news of one notice, and unlike those of the source's other notices. It is the
  /// source's own id or, where the source gives none, a name that ends in the time, in seconds
  /// since 1970, at which this daemon first saw the notice. It is clean, without spaces.
  std::string id;
  Kind kind = Kind::kMaintenance;
  State state = State::kScheduled;
  /// The earliest time at which it begins, in seconds since 1970; none: not known, or now.
  std::optional<int64_t> not_before_seconds = std::nullopt;
  /// How long the host is expected to be affected; none: not known.
  std::optional<int64_t> duration_seconds = std::nullopt;
  /// Whether the processes of this host go on after it where they are. Otherwise they end with it,
  /// or nothing is promised.
  bool survives = false;
  /// Whether the source says that other hosts are affected, too: what is decided about it is then
  /// decided for them.
  bool concerns_others = false;
  std::string text = {};  ///< For operators; clean, one line.

  bool operator==(const CloudNotice&) const = default;
};

/// Names of the kinds and states of notices, in the order of their values. The last kind is for
/// drains alone.
inline constexpr std::string_view kNoticeKinds[] = {"maintenance", "reclaim", "risk_of_reclaim",
                                                    "unhealthy", "service_restart"};
inline constexpr std::string_view kNoticeStates[] = {"scheduled", "started", "completed",
                                                     "withdrawn"};

}  // namespace harmonaize::daemon
