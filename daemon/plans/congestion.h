#pragma once

#include <cstddef>
#include <deque>
#include <string_view>

namespace harmonaize::daemon {

/// How much of its speed a communicator loses to links that carry less than the provider's file
/// states, whatever the reason. It says nothing of which links these are, so that tenants may be
/// told one day.
enum class CongestionLevel {
  kNone = 0,
  kMild,    ///< The best plan takes at least 15% longer than it would.
  kSevere,  ///< At least twice as long.
};
/// Returns "none", "mild" or "severe".
std::string_view CongestionName(CongestionLevel level);

/// The levels of one communicator over time. A level is left again only well below where it began,
/// so that a slowdown that wavers about a threshold is one change.
class Congestion {
 public:
  struct Change {
    double unix_seconds = 0;
    CongestionLevel level = CongestionLevel::kNone;
    /// Time that is predicted now, divided by that if all links carry what is stated.
    double slowdown = 1;
  };

  /// Takes in the slowdown that is predicted now. Returns true if the level has changed.
  bool Take(double slowdown, double unix_seconds);

  CongestionLevel level() const { return level_; }
  double slowdown() const { return slowdown_; }
  /// The last changes, the newest last.
  const std::deque<Change>& changes() const { return changes_; }

  /// Most changes that are remembered.
  static constexpr size_t kRemembered = 64;

 private:
  CongestionLevel level_ = CongestionLevel::kNone;
  double slowdown_ = 1;
  std::deque<Change> changes_;
};

/// Whether links that carry nothing slow a communicator down. A link that carries little may be
/// full of others' traffic, which is congestion; one that carries nothing is cut.
class CutSlowdown {
 public:
  enum class Change { kNone, kDegraded, kRestored };

  /// Takes in whether any link is cut now, and how much of its speed the communicator loses to all
  /// that links lack. It stays degraded until no link is cut any more.
  Change Take(bool any_cut, CongestionLevel level);

 private:
  bool degraded_ = false;
};

}  // namespace harmonaize::daemon
