#pragma once

#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

class Formation;
struct Job;

/// Hears of communicators whose ranks do not come. Told at their home, of what forms there. Thread:
/// engine.
class FormationObserver {
 public:
  /// Ranks have waited for longer than late_after_seconds for the ranks that are missing, of which
  /// the first are given. Returns whether that was told to anybody; then it is told once for what
  /// forms.
  virtual bool OnFormingLate(Job& job, const Formation& formation, const std::vector<int>& missing,
                             uint64_t now_ns) = 0;
  /// All have come to what OnFormingLate was about. Nothing is told of what fails to form.
  virtual void OnFormed(Job& job, const Formation& formation, const std::vector<int>& were_missing,
                        uint64_t now_ns) = 0;

 protected:
  ~FormationObserver() = default;
};

}  // namespace harmonaize::daemon
