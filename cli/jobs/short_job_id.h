#pragma once

#include <cstddef>
#include <string>

namespace harmonaize {

/// Characters of a job's id that people are shown: enough to tell the jobs of a host apart.
inline constexpr size_t kShortJobIdLength = 8;

/// Returns the beginning of a job's id.
inline std::string ShortJobId(const std::string& id) {
  return id.substr(0, kShortJobIdLength);
}

}  // namespace harmonaize
