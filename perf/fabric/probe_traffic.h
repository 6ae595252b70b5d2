#pragma once

#include "perf/fabric/laboratory.h"
#include "src/base/status.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/inference/inference.h"

namespace harmonaize::fabric {

struct ProbeEffort {
  int round_trips = 40;            ///< Samples of each pair in each pass.
  double seconds = kProbeSeconds;  ///< Length of a usual set; its first half is not counted.
};

/// Returns the laboratory's hosts and NICs by name, without measurements. Hosts are in the order of
/// fabric().Hosts().
Measurements NothingMeasured(const Laboratory& laboratory);

/// Makes the requested measurements by TCP between the hosts' own addresses, and adds the results.
/// For round trips, NICs that cannot be connected are not an error.
Status CarryOut(const Laboratory& laboratory, const NextMeasurements& next,
                const ProbeEffort& effort, Measurements* measurements);

}  // namespace harmonaize::fabric
