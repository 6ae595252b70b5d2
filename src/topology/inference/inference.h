#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"
#include "src/topology/inference/measurements.h"
#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

// Where no file says what the fabric is, it is inferred from what hosts measure among themselves.
// docs/probing.md tells how, and what cannot be seen. Functions of their arguments: thread safe.

struct ProbeOptions {
  /// Sets of transfers at most; 0: 200 and three for each host.
  int most_sets = 0;
};

/// What to measure next. Nothing in it: there is no more to ask.
struct NextMeasurements {
  /// One pass over all pairs, in this order: what changes with time is not to look like a pair's.
  std::vector<std::pair<Endpoint, Endpoint>> round_trips;
  TransferSet transfers;  ///< All at once, and nothing else meanwhile.
  /// Of the time that a set usually takes: where many connections meet in one place, TCP needs
  /// longer to find its rates.
  double times_as_long = 1;
  std::string why;  ///< "host4 and host5 together", for people.
  bool empty() const { return round_trips.empty() && transfers.empty(); }
};

/// First all round trips, in several passes; then a tournament of pairs, all hosts at once; what
/// each host sends to and gets from all others; pairs that may be of one rack while others load the
/// links between racks; pairs that may share a link out; and last, all of each supposed rack
/// against the rest. Up to 16 hosts, what looks slow is measured three times. More than 16 are not
/// asked pair by pair, and above 64 the tournament has 8 log2(n) rounds: O(n log n) transfers.
NextMeasurements NextProbes(const Measurements& measurements, const ProbeOptions& options = {});

/// A rack, as one plane sees it, against the rest of the fabric.
struct RackBoundary {
  int plane = 0;
  std::vector<std::string> hosts;
  double bytes_per_second_out = 0;
  double bytes_per_second_in = 0;
  /// Whether the links out carry less than the hosts within can send, or those without receive.
  /// Where not, they carry this much or more.
  bool limits_out = false;
  bool limits_in = false;
  double confidence = 0;  ///< 0 to 1.
  std::string reason;
};

struct InferredFabric {
  /// Hosts with their NICs as they were probed. Switches are invented: one leaf for each rack and
  /// plane, one spine for each plane that has several. Rates are payload. No explicit paths.
  Fabric fabric;
  bool ring = false;
  double confidence = 0;  ///< 0 to 1.
  std::string reason;
  std::vector<RackBoundary> boundaries;
};

/// kInvalidArgument when the measurements are wrong, or say too little to make any fabric of: a
/// host that no transfer reached, or hosts that reach each other by no NIC.
Result<InferredFabric> InferFabric(const Measurements& measurements, const std::string& name);

}  // namespace harmonaize
