#pragma once

#include "perf/fabric/laboratory.h"
#include "src/base/status.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/inference/inference.h"

namespace harmonaize::fabric {

struct ProbeEffort {
  int round_trips = 40;            ///< Samples of each pair in each pass.
  double seconds = kProbeSeconds;  ///< Of a usual set of transfers; its first half does not count.
};

/// The laboratory's hosts and NICs by name, with nothing measured. Hosts have the places of
/// fabric().Hosts() in it.
Measurements NothingMeasured(const Laboratory& laboratory);

/// Carries out what is asked for by TCP between the hosts' own addresses, and adds what was
/// measured. NICs between which no connection comes about are not an error of round trips.
Status CarryOut(const Laboratory& laboratory, const NextMeasurements& next,
                const ProbeEffort& effort, Measurements* measurements);

}  // namespace harmonaize::fabric
