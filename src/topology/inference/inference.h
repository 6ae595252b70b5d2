#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"
#include "src/topology/inference/measurements.h"
#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

// Where no file describes the fabric, it is inferred from what hosts measure among themselves.
// docs/probing.md tells how, and what cannot be seen. Thread: any.

struct ProbeOptions {
  /// Most sets of transfers; 0: 200 and three for each host.
  int most_sets = 0;
};

/// The measurements to make next; empty when there is no more to ask.
struct NextMeasurements {
  /// One pass over all pairs, in this order, so that changes over time do not look like a pair's.
  std::vector<std::pair<Endpoint, Endpoint>> round_trips;
  TransferSet transfers;  ///< Run all at once, with nothing else meanwhile.
  /// Factor on the time that a set usually takes: where many connections meet in one place, TCP
  /// needs longer to find its rates.
  double times_as_long = 1;
  std::string why;  ///< Reason for people: "host4 and host5 together".
  bool empty() const { return round_trips.empty() && transfers.empty(); }
};

/// Returns the next measurements. First come all round trips, in several passes. Then follow a
/// tournament of pairs, all hosts at once; what each host sends to and gets from all others; pairs
/// that may be of one rack while others load the links between racks; pairs that may share a link
/// out; and last, each supposed rack against the rest. Up to 16 hosts, what looks slow is measured
/// three times. More than 16 are not asked pair by pair, and above 64 the tournament has 8 log2(n)
/// rounds: O(n log n) transfers.
NextMeasurements NextProbes(const Measurements& measurements, const ProbeOptions& options = {});

/// The border of a rack, in one plane, with the rest of the fabric.
struct RackBoundary {
  int plane = 0;
  std::vector<std::string> hosts;
  double bytes_per_second_out = 0;
  double bytes_per_second_in = 0;
  /// Whether the links out carry less than the hosts within can send, or those outside receive. If
  /// not, they carry this much or more.
  bool limits_out = false;
  bool limits_in = false;
  double confidence = 0;  ///< 0 to 1.
  std::string reason;
};

struct InferredFabric {
  /// Hosts with their NICs as probed. Switches are invented: one leaf for each rack and plane, one
  /// spine for each plane that has several racks. Rates are payload. No explicit paths.
  Fabric fabric;
  bool ring = false;
  double confidence = 0;  ///< 0 to 1.
  std::string reason;
  std::vector<RackBoundary> boundaries;
};

/// Infers the fabric. Errors: kInvalidArgument when the measurements are invalid, or say too little
/// for any fabric: a host that no transfer reached, or hosts that reach each other by no NIC.
Result<InferredFabric> InferFabric(const Measurements& measurements, const std::string& name);

}  // namespace harmonaize
