#pragma once

#include <functional>
#include <random>
#include <vector>

#include "src/topology/fabric/fabric_routing.h"
#include "src/topology/inference/inference.h"

namespace harmonaize {

/// A known fabric that can be probed without a network: connections are fluid and share links
/// max-min fairly (progressive filling; Bertsekas and Gallager, Data Networks, 1992), ECMP takes
/// one of the equal ways by chance, and measurements are noisy.
class FluidNetwork {
 public:
  struct Noise {
    double rate = 0.03;          ///< Standard deviation, as a fraction.
    double round_trip = 0.02;    ///< Standard deviation, as a fraction.
    double bad_round_trips = 0;  ///< Fraction of pairs whose round trips take three times as long.
    /// Seconds of a round trip for each link it crosses; 0: all take equally long.
    double seconds_of_link = 1e-6;
    /// Factor on all round trips, by how many pairs were sampled before, as where a machine's clock
    /// rate changes. None: constant.
    std::function<double(int)> pace{};
  };

  FluidNetwork(const Fabric& fabric, const Noise& noise, unsigned seed)
      : fabric_(fabric), routing_(fabric), noise_(noise), random_(seed) {}

  /// Probes until nothing more is asked for, or `most_sets` are measured.
  Measurements Probe(const ProbeOptions& options = {});
  Measurements NothingMeasured() const;
  void CarryOut(const NextMeasurements& next, Measurements* measurements);
  std::vector<double> Rates(const TransferSet& set);

 private:
  Endpoint InFabric(Endpoint probed) const {
    return {fabric_.Hosts()[static_cast<size_t>(probed.host)], probed.nic};
  }
  Route RouteOf(const TransferRequest& request);
  RoundTrip RoundTripOf(Endpoint from, Endpoint to);
  double Noisy(double value, double deviation);

  const Fabric& fabric_;
  FabricRouting routing_;
  Noise noise_;
  std::mt19937 random_;
  int sampled_ = 0;
};

}  // namespace harmonaize
