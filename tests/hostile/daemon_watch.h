#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tests/hostile/daemon_meter.h"
#include "tests/support/daemon_process.h"

namespace harmonaize::testing {

/// Compares a daemon beside attackers with what it was before them.
class DaemonWatch {
 public:
  explicit DaemonWatch(const DaemonProcess* daemon) : daemon_(daemon) {}

  bool DaemonLives() const;
  /// Notes what the daemon holds for the honest job; failures are gtest's. Requires: nobody else is
  /// here, and the job pauses.
  void NoteBeginning();
  /// Returns what the daemon holds now that it did not hold at the beginning; "" where there is
  /// nothing.
  std::string Difference() const;
  /// Returns what its log says of links to other daemons that were lost; "" where none was.
  std::string LostLinks() const;

 private:
  const DaemonProcess* daemon_;
  DaemonSample baseline_;
  std::string descriptors_before_;
  Holdings honest_holdings_;  ///< Its memory apart.
  int64_t honest_regions_ = 0;
};

}  // namespace harmonaize::testing
