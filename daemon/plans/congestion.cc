#include "daemon/plans/congestion.h"

namespace harmonaize::daemon {
namespace {

/// Slowdowns at which a level begins, and below which it ends again.
struct Threshold {
  double enter;
  double leave;
};
/// Thresholds of CongestionLevel::kMild.
constexpr Threshold kMild{1.15, 1.08};
/// Thresholds of CongestionLevel::kSevere.
constexpr Threshold kSevere{2.0, 1.7};

bool Reaches(double slowdown, const Threshold& threshold, bool inside) {
  return slowdown >= (inside ? threshold.leave : threshold.enter);
}

CongestionLevel Next(CongestionLevel now, double slowdown) {
  if (Reaches(slowdown, kSevere, now == CongestionLevel::kSevere)) return CongestionLevel::kSevere;
  if (Reaches(slowdown, kMild, now != CongestionLevel::kNone)) return CongestionLevel::kMild;
  return CongestionLevel::kNone;
}

}  // namespace

std::string_view CongestionName(CongestionLevel level) {
  switch (level) {
    case CongestionLevel::kNone: return "none";
    case CongestionLevel::kMild: return "mild";
    case CongestionLevel::kSevere: return "severe";
  }
  return "unknown";
}

bool Congestion::Take(double slowdown, double unix_seconds) {
  slowdown_ = slowdown;
  const CongestionLevel next = Next(level_, slowdown);
  if (next == level_) return false;
  level_ = next;
  changes_.push_back({unix_seconds, level_, slowdown});
  if (changes_.size() > kRemembered) changes_.pop_front();
  return true;
}

CutSlowdown::Change CutSlowdown::Take(bool any_cut, CongestionLevel level) {
  const bool begins = any_cut && level != CongestionLevel::kNone;
  if (!degraded_ && begins) {
    degraded_ = true;
    return Change::kDegraded;
  }
  if (degraded_ && !any_cut) {
    degraded_ = false;
    return Change::kRestored;
  }
  return Change::kNone;
}

}  // namespace harmonaize::daemon
