#pragma once

#include <vector>

#include "src/topology/inference/clustering.h"
#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

/// What measurements say about the hosts of one plane. Hosts are places in plane.hosts; what is not
/// known of a pair is NaN.
struct RackEvidence {
  Plane plane;
  /// In bytes a second, MostThatLasts of what each was seen to send.
  std::vector<double> sends;
  std::vector<double> receives;
  /// Seconds, the lowest that comes back again and again, against that of the other pairs at the
  /// same time: a machine that is faster for a while changes nothing.
  PairMatrix round_trip;
  TwoClasses latency;  ///< Of round_trip.
  /// How clearly round trips fall in near and far ones that make groups of hosts: 0 to 1.
  double latency_weight = 0;
  /// Of what two hosts could send each other by their NICs, the part that they reached while all
  /// others were busy in pairs, too; of all such pairings the least.
  PairMatrix reached;
  /// Of what two hosts could send to others, the part that was lost because both did.
  PairMatrix lost;
  /// What transfers alone say: 1 apart, 0 together.
  PairMatrix apart_by_rate;
  /// Both kinds of evidence, weighted: 1 apart, 0 together. Known everywhere: 0 without evidence.
  PairMatrix apart;
  /// By host: its rack, numbered by their first hosts.
  std::vector<int> racks;

  int Racks() const;
  std::vector<int> HostsOf(int rack) const;  ///< As in Measurements::hosts.
};

/// Up to so many hosts, each pair may be asked about by itself.
inline constexpr int kFewHosts = 16;
/// Below this part, a pair was slowed down by others.
inline constexpr double kSlow = 0.8;
/// From this part on, it was not.
inline constexpr double kFull = 0.9;

RackEvidence WeighEvidence(const Measurements& measurements, const ProbeSets& sets,
                           const MeasuredSets& measured, const Plane& plane);

/// The most of rates; the second most where that is near, as the most of several is what was
/// counted too high. 0 for none.
double MostThatLasts(std::vector<double> rates);

/// The sum of a set's rates between NICs of the plane, each time that it was measured.
std::vector<double> TotalRates(const MeasuredSets& measured, const TransferSet& set,
                               const Plane& plane);
/// Their median; 0 when it was not measured.
double TotalRate(const MeasuredSets& measured, const TransferSet& set, const Plane& plane);

}  // namespace harmonaize
