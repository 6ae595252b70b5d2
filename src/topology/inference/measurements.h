#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

// What probing a network gives: plain values, safe to read from several threads while nobody
// writes. Endpoint::host is a place in Measurements::hosts here.

struct ProbedNic {
  std::string device;
  std::string address;  ///< IPv4.
};

struct ProbedHost {
  std::string name;
  std::vector<ProbedNic> nics;
};

/// Small messages to and fro between two NICs of different hosts; stands for both directions. The
/// first of the two NICs' entries is of the first pass over all pairs, the second of the second.
struct RoundTrip {
  Endpoint from;
  Endpoint to;
  /// False: no connection came about, and there are no samples.
  bool reachable = true;
  std::vector<double> seconds;  ///< One a message.
};

/// As fast as it went from one NIC to another over so many connections at once, all of them
/// together. Several connections, since ECMP gives each one way.
struct MeasuredTransfer {
  Endpoint from;
  Endpoint to;
  int connections = 1;
  double bytes_per_second = 0;  ///< Payload that arrived, after TCP has found its rate.
};

/// Transfers that ran at the same time, and nothing else meanwhile. One transfer: its rate alone.
using ConcurrentTransfers = std::vector<MeasuredTransfer>;

struct Measurements {
  std::vector<ProbedHost> hosts;
  std::vector<RoundTrip> round_trips;
  std::vector<ConcurrentTransfers> concurrent;

  /// "host0:nic1".
  std::string EndpointName(Endpoint endpoint) const;
};

/// Whether names are unique and well formed, endpoints are there and of two different hosts, and
/// times and rates are numbers that can be. kInvalidArgument names what is wrong.
Status ValidateMeasurements(const Measurements& measurements);

/// As a JSON document:
///
///     {"hosts": [{"name": "host0", "nics": [{"device": "nic0", "address": "10.0.0.1"}]}, ...],
///      "round_trips": [{"from": "host0:nic0", "to": "host1:nic0", "reachable": true,
///                       "seconds": [21e-6, ...]}, ...],
///      "concurrent": [[{"from": "host0:nic0", "to": "host1:nic0", "connections": 2,
///                       "bytes_per_second": 31e6}, ...], ...]}
std::string FormatMeasurements(const Measurements& measurements);
/// Every key is needed, and no other is known. `name` stands for the document in errors, which are
/// kInvalidArgument and say where in it they are, as in "round_trips[3].seconds".
Result<Measurements> ParseMeasurements(std::string_view text, const std::string& name);

}  // namespace harmonaize
