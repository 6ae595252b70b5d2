#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "src/base/status.h"
#include "tests/support/daemon_process.h"

namespace harmonaize::testing {

/// What a daemon holds of its host at one moment.
struct DaemonSample {
  long resident_kilobytes = 0;
  long proportional_kilobytes = 0;
  /// Of its own: what is not shared memory of tenants.
  long anonymous_kilobytes = 0;
  int descriptors = 0;
  int threads = 0;
  int mappings = 0;
  double processor_seconds = 0;
};

/// What its descriptors stand for, with how many there are of each kind: "3 socket, 12 memfd".
std::string DescribeDescriptors(const DaemonProcess& daemon);

DaemonSample Sample(const DaemonProcess& daemon);

/// What each user holds, by resource ("regions", ...), as operators are told. Users without a
/// holding are left out.
using Holdings = std::map<uid_t, std::map<std::string, int64_t>>;
Result<Holdings> FetchHoldings(const DaemonProcess& daemon);

/// "uid 64001: connections 3, regions 12; uid ...".
std::string Describe(const Holdings& holdings);

}  // namespace harmonaize::testing
