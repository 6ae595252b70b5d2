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
/// "none", "mild", "severe".
std::string_view CongestionName(CongestionLevel level);

/// The levels of one communicator over time. A level is left again only well below where it began,
/// so that what wavers about a threshold is one change.
class Congestion {
 public:
  struct Change {
    double unix_seconds = 0;
    CongestionLevel level = CongestionLevel::kNone;
    double slowdown = 1;  ///< Predicted now, by predicted where all is as stated.
  };

  /// What is predicted now. True if the level has changed.
  bool Take(double slowdown, double unix_seconds);

  CongestionLevel level() const { return level_; }
  double slowdown() const { return slowdown_; }
  /// The last ones, the newest last.
  const std::deque<Change>& changes() const { return changes_; }

  static constexpr size_t kRemembered = 64;

 private:
  CongestionLevel level_ = CongestionLevel::kNone;
  double slowdown_ = 1;
  std::deque<Change> changes_;
};

}  // namespace harmonaize::daemon
