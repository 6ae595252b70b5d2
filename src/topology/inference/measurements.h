#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

// Results of probing a network. Plain values. Thread: any, while none writes. Endpoint::host is an
// index into Measurements::hosts here.

struct ProbedNic {
  std::string device;
  std::string address;  ///< IPv4.
};

struct ProbedHost {
  std::string name;
  std::vector<ProbedNic> nics;
};

/// Round trips of small messages between two NICs of different hosts; stands for both directions.
/// The first of the two NICs' entries is of the first pass over all pairs, the second of the
/// second.
struct RoundTrip {
  Endpoint from;
  Endpoint to;
  /// False: no connection could be made, and there are no samples.
  bool reachable = true;
  std::vector<double> seconds;  ///< One for each message.
};

/// Rate from one NIC to another over so many connections at once, all of them together. Several
/// connections, because ECMP gives each one way.
struct MeasuredTransfer {
  Endpoint from;
  Endpoint to;
  int connections = 1;
  double bytes_per_second = 0;  ///< Payload that arrived, after TCP has found its rate.
};

/// Transfers that ran at the same time, with nothing else meanwhile. A single transfer: its rate
/// alone.
using ConcurrentTransfers = std::vector<MeasuredTransfer>;

struct Measurements {
  std::vector<ProbedHost> hosts;
  std::vector<RoundTrip> round_trips;
  std::vector<ConcurrentTransfers> concurrent;

  /// Returns "host0:nic1".
  std::string EndpointName(Endpoint endpoint) const;
};

/// Returns ok if names are unique and well formed, endpoints exist and are of two different hosts,
/// and times and rates are possible numbers. Errors: kInvalidArgument, which names what is wrong.
Status ValidateMeasurements(const Measurements& measurements);

/// Formats the measurements as a JSON document:
///
///     {"hosts": [{"name": "host0", "nics": [{"device": "nic0", "address": "10.0.0.1"}]}, ...],
///      "round_trips": [{"from": "host0:nic0", "to": "host1:nic0", "reachable": true,
///                       "seconds": [21e-6, ...]}, ...],
///      "concurrent": [[{"from": "host0:nic0", "to": "host1:nic0", "connections": 2,
///                       "bytes_per_second": 31e6}, ...], ...]}
std::string FormatMeasurements(const Measurements& measurements);
/// Parses such a document. Every key is needed, and no other is known. `name` stands for the
/// document in errors, which are kInvalidArgument and name the place, as in
/// "round_trips[3].seconds".
Result<Measurements> ParseMeasurements(std::string_view text, const std::string& name);

}  // namespace harmonaize
