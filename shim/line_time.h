#pragma once

#include <time.h>

#include <string>

/// \file
/// NCCL_DEBUG_TIMESTAMP_LEVELS and NCCL_DEBUG_TIMESTAMP_FORMAT: they determine which lines of the
/// log have a time, and its format.

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
  /// Makes it from the values of the two variables; nullptr where one is not set. By default only
  /// NCCL_DEBUG's WARN lines have a time, such as [2026-01-31 23:59:59].
  static LineTime Parse(const char* levels, const char* format);

  /// Returns the prefix of a line of this level that is written at `now`, in the process's time
  /// zone; "" if the level has no time.
  std::string Prefix(LineLevel level, const timespec& now) const;

 private:
  unsigned levels_ = kWarnLine;
  /// strftime's formats before and after the digits of a fraction of a second; there is no fraction
  /// without digits.
  std::string before_;
  int digits_ = 0;
  std::string after_;
};

}  // namespace harmonaize::shim
