#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "src/base/status.h"
#include "tests/support/daemon_process.h"

namespace harmonaize::testing {

/// A daemon's use of its host at one moment.
struct DaemonSample {
  long resident_kilobytes = 0;
  long proportional_kilobytes = 0;
  /// Memory of its own: not shared with tenants.
  long anonymous_kilobytes = 0;
  int descriptors = 0;
  int threads = 0;
  int mappings = 0;
  double processor_seconds = 0;

  /// Adds another daemon's.
  DaemonSample& operator+=(const DaemonSample& other);
  /// Raises each value to the other's where that is greater.
  void RaiseTo(const DaemonSample& other);
};

/// Describes what its descriptors stand for, with the number of each kind: "3 socket, 12 memfd".
std::string DescribeDescriptors(const DaemonProcess& daemon);

DaemonSample Sample(const DaemonProcess& daemon);

/// Holdings of each user, by resource ("regions", ...), as shown to operators. Users without a
/// holding are left out.
using Holdings = std::map<uid_t, std::map<std::string, int64_t>>;
Result<Holdings> FetchHoldings(const DaemonProcess& daemon);

/// Returns "uid 64001: connections 3, regions 12; uid ...".
std::string Describe(const Holdings& holdings);

}  // namespace harmonaize::testing
