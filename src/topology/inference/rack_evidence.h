#pragma once

#include <vector>

#include "src/topology/inference/clustering.h"
#include "src/topology/inference/probe_sets.h"

namespace harmonaize {

/// Evidence of measurements about the hosts of one plane. Hosts are indices in plane.hosts; unknown
/// values of a pair are NaN.
struct RackEvidence {
  Plane plane;
  /// MostThatLasts of what each host was seen to send, and to receive, in bytes a second.
  std::vector<double> sends;
  std::vector<double> receives;
  /// Seconds: the lowest that recurs, relative to that of the other pairs at the same time. A
  /// machine that is faster for a while changes nothing.
  PairMatrix round_trip;
  TwoClasses latency;  ///< Classes of round_trip.
  /// Clarity, from 0 to 1, with which round trips fall into near and far and make groups of hosts.
  double latency_weight = 0;
  /// Fraction of what two hosts could send each other by their NICs that they reached while all
  /// others were busy in pairs, too; the least of all such pairings.
  PairMatrix reached;
  /// Fraction of what two hosts could send to others that was lost because both sent.
  PairMatrix lost;
  /// Evidence of transfers alone: 1 apart, 0 together.
  PairMatrix apart_by_rate;
  /// Both kinds of evidence, weighted: 1 apart, 0 together. Known everywhere: 0 without evidence.
  PairMatrix apart;
  /// Rack of each host, numbered by their first hosts.
  std::vector<int> racks;

  int Racks() const;
  std::vector<int> HostsOf(int rack) const;  ///< Hosts as in Measurements::hosts.
};

/// Up to this many hosts, each pair may be asked about by itself.
inline constexpr int kFewHosts = 16;
/// Below this fraction, others slowed a pair down.
inline constexpr double kSlow = 0.8;
/// From this fraction on, they did not.
inline constexpr double kFull = 0.9;

RackEvidence WeighEvidence(const Measurements& measurements, const ProbeSets& sets,
                           const MeasuredSets& measured, const Plane& plane);

/// Returns the largest of the rates, or the second largest if that is near, because the largest of
/// several is one that was counted too high. 0 for none.
double MostThatLasts(std::vector<double> rates);

/// Returns the sum of a set's rates between NICs of the plane, each time that it was measured.
std::vector<double> TotalRates(const MeasuredSets& measured, const TransferSet& set,
                               const Plane& plane);
/// Returns the median of TotalRates; 0 when the set was not measured.
double TotalRate(const MeasuredSets& measured, const TransferSet& set, const Plane& plane);

}  // namespace harmonaize
