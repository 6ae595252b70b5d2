#pragma once

#include <chrono>

namespace harmonaize {

/// Returns the seconds since 1970, for people: this clock may jump.
inline double UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace harmonaize
