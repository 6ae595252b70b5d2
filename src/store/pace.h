#pragma once

#include <cstdint>
#include <functional>

#include "src/base/status.h"

namespace harmonaize::store {

/// Bounds how many bytes are written in a second. Thread: one.
class Pace {
 public:
  /// 0: no bound. `go_on` is asked while there is a wait; what it returns ends it, unless it is ok.
  Pace(uint64_t most_bytes_per_second, std::function<Status()> go_on);

  /// Waits until so many bytes may be written. Errors: those of go_on.
  Status Before(uint64_t bytes);

 private:
  const uint64_t most_bytes_per_second_;
  const std::function<Status()> go_on_;
  uint64_t free_at_ns_ = 0;  ///< When all that was let through is paid for.
};

}  // namespace harmonaize::store
