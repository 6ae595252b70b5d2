#pragma once

#include <time.h>

#include <string>

/// \file
/// NCCL_DEBUG_TIMESTAMP_LEVELS and NCCL_DEBUG_TIMESTAMP_FORMAT: which lines of the log tell the
/// time, and how.

namespace harmonaize::shim {

/// NCCL's levels, as bits of a mask.
enum LineLevel : unsigned {
  kVersionLine = 1,
  kWarnLine = 2,
  kInfoLine = 4,
  kAbortLine = 8,
  kTraceLine = 16,
  kAllLines = 31,
};

class LineTime {
 public:
  /// Of the values of the two variables; nullptr where one is not set. Not set, NCCL_DEBUG's WARN
  /// lines alone tell the time, as [2026-01-31 23:59:59].
  static LineTime Parse(const char* levels, const char* format);

  /// What a line of this level begins with when it is written at `now`, in the process's time
  /// zone; "" where it tells no time.
  std::string Prefix(LineLevel level, const timespec& now) const;

 private:
  unsigned levels_ = kWarnLine;
  /// strftime's, around the digits of a fraction of a second; without digits there is no fraction.
  std::string before_;
  int digits_ = 0;
  std::string after_;
};

}  // namespace harmonaize::shim
