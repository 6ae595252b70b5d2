#include "src/topology/inference/rack_evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "src/topology/inference/measurement_keys.h"

namespace harmonaize {
namespace {

// Quantile of a round trip's samples that counts: waiting for a processor or in a queue only ever
// adds time.
constexpr double kLowSamples = 0.1;
// A rate of at least this fraction of the largest confirms it.
constexpr double kSeenAgain = 0.8;
// Two classes with less separation do not count as distinct. Values of one normal distribution
// reach 2.7.
constexpr double kLeastSeparation = 3.5;
// Two classes with at least this separation count as clearly distinct.
constexpr double kClearSeparation = 6.5;
// Fraction of a round trip that a further switch must add to count at all.
constexpr double kLeastLonger = 0.1;
// Fraction of a round trip that a further switch must add to count fully.
constexpr double kClearlyLonger = 0.3;
// Fraction of pairs that may be bad ones.
constexpr double kFewPairs = 0.15;
// Most splits of the round trips into near and far.
constexpr int kMostSplits = 3;
// Two hosts that lose more than this fraction when both send share a link out.
constexpr double kSharesLink = 0.2;
// Two hosts that lose less than this fraction share none.
constexpr double kSharesNone = 0.1;
// Evidence that is weaker than latency: links that are just large enough are shared by some pairs
// only.
constexpr double kProbablyApart = 0.75;
// Weight of a host's other pairs if a pair itself was not measured; a measurement of it counts 1.
constexpr double kWeightOfProfile = 0.5;
// Below this distance by latency alone, hosts are near.
constexpr double kNear = 0.25;
// From this distance on, hosts are apart.
constexpr double kApart = 0.5;

double Ramp(double value, double from, double to) {
  return std::clamp((value - from) / (to - from), 0.0, 1.0);
}

size_t At(int place) {
  return static_cast<size_t>(place);
}

double LowSample(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(kLowSamples * static_cast<double>(samples.size()))];
}

/// Returns, by pair of NICs, the low sample of each pass.
std::map<NicPair, std::vector<double>> FindPasses(const Measurements& measurements,
                                                  const Plane& plane) {
  std::map<NicPair, std::vector<double>> passes;
  for (const RoundTrip& trip : measurements.round_trips) {
    if (!trip.reachable || !plane.Has(trip.from) || !plane.Has(trip.to)) continue;
    passes[PairOf(trip.from, trip.to)].push_back(LowSample(trip.seconds));
  }
  return passes;
}

/// Returns the median of all pairs in each pass.
std::vector<double> LevelsOf(const std::map<NicPair, std::vector<double>>& passes) {
  std::vector<std::vector<double>> by_pass;
  for (const auto& [nics, seconds] : passes) {
    by_pass.resize(std::max(by_pass.size(), seconds.size()));
    for (size_t pass = 0; pass < seconds.size(); ++pass) by_pass[pass].push_back(seconds[pass]);
  }
  std::vector<double> levels;
  for (std::vector<double>& all : by_pass) levels.push_back(Median(std::move(all)));
  return levels;
}

/// Finds the pairs' round trips. A pair's value in a pass is taken relative to that pass's median,
/// so influences that slow all pairs down for a while do not count. The median over passes is used,
/// so changes in the middle of one do not count either.
void FindRoundTrips(const Measurements& measurements, RackEvidence* evidence) {
  const auto passes = FindPasses(measurements, evidence->plane);
  const std::vector<double> levels = LevelsOf(passes);
  const double usual = Median(levels);
  std::map<std::pair<int, int>, std::vector<double>> values;
  for (const auto& [nics, seconds] : passes) {
    std::vector<double> against_level;
    for (size_t pass = 0; pass < seconds.size(); ++pass) {
      against_level.push_back(usual * seconds[pass] / levels[pass]);
    }
    const int a = evidence->plane.PlaceOf(nics.first.first);
    const int b = evidence->plane.PlaceOf(nics.second.first);
    values[{std::min(a, b), std::max(a, b)}].push_back(Median(std::move(against_level)));
  }
  for (auto& [pair, seconds] : values) {
    evidence->round_trip.Set(At(pair.first), At(pair.second), Median(std::move(seconds)));
  }
}

double FarByLatency(const RackEvidence& evidence, size_t a, size_t b) {
  const double seconds = evidence.round_trip.at(a, b);
  if (std::isnan(seconds)) return 0;
  return Ramp(seconds, evidence.latency.low, evidence.latency.high);
}

/// Returns how far evidence->latency can be trusted.
double WeightOfLatency(const RackEvidence& evidence) {
  const TwoClasses& classes = evidence.latency;
  if (classes.separation == 0 || classes.low <= 0) return 0;
  const size_t n = evidence.plane.hosts.size();
  PairMatrix far(n, 0);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) far.Set(a, b, FarByLatency(evidence, a, b));
  }
  // Near and far must form groups of hosts, not single pairs.
  const std::vector<double> silhouettes = Silhouettes(far, ClusterByAverageLinkage(far, kApart));
  const double mean = std::accumulate(silhouettes.begin(), silhouettes.end(), 0.0) /
                      static_cast<double>(silhouettes.size());
  return Ramp(classes.separation, kLeastSeparation, kClearSeparation) *
         Ramp(classes.high / classes.low - 1, kLeastLonger, kClearlyLonger) * Ramp(mean, 0.2, 0.7);
}

/// A few bad pairs may make up the far class. They are then treated as long as the longest of the
/// others, and all are split again.
void WeighLatency(RackEvidence* evidence) {
  std::vector<double> trips = evidence->round_trip.Known();
  TwoClasses best;
  double best_weight = 0;
  for (int i = 0; i < kMostSplits; ++i) {
    evidence->latency = SplitInTwo(trips);
    const double weight = WeightOfLatency(*evidence);
    if (i == 0 || weight > best_weight) {
      best = evidence->latency;
      best_weight = weight;
    }
    const double middle = (evidence->latency.low + evidence->latency.high) / 2;
    double longest = 0;
    double far = 0;
    for (const double trip : trips) {
      if (trip < middle) longest = std::max(longest, trip);
      if (trip >= middle) far += 1;
    }
    if (far > kFewPairs * static_cast<double>(trips.size()) || longest == 0) break;
    for (double& trip : trips) trip = std::min(trip, longest);
  }
  evidence->latency = best;
  evidence->latency_weight = best_weight;
}

void FindRates(const Measurements& measurements, RackEvidence* evidence) {
  const Plane& plane = evidence->plane;
  const size_t n = plane.hosts.size();
  std::vector<std::vector<double>> sent(n);
  std::vector<std::vector<double>> received(n);
  for (const ConcurrentTransfers& set : measurements.concurrent) {
    std::vector<double> out(n);
    std::vector<double> in(n);
    for (const MeasuredTransfer& one : set) {
      if (!plane.Has(one.from) || !plane.Has(one.to)) continue;
      out[At(plane.PlaceOf(one.from.host))] += one.bytes_per_second;
      in[At(plane.PlaceOf(one.to.host))] += one.bytes_per_second;
    }
    for (size_t i = 0; i < n; ++i) {
      if (out[i] > 0) sent[i].push_back(out[i]);
      if (in[i] > 0) received[i].push_back(in[i]);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    evidence->sends[i] = MostThatLasts(std::move(sent[i]));
    evidence->receives[i] = MostThatLasts(std::move(received[i]));
  }
}

/// Returns what two hosts could send each other by their NICs.
double Possible(const RackEvidence& evidence, size_t from, size_t to) {
  return std::min(evidence.sends[from], evidence.receives[to]);
}

/// Returns, by pair of hosts, the fraction that each reached. Empty unless every host of the set
/// has one partner and both send.
std::map<std::pair<int, int>, double> Pairing(const ConcurrentTransfers& set,
                                              const RackEvidence& evidence) {
  std::map<std::pair<int, int>, double> rates;
  for (const MeasuredTransfer& one : set) {
    const int from = evidence.plane.PlaceOf(one.from.host);
    const int to = evidence.plane.PlaceOf(one.to.host);
    if (evidence.plane.Has(one.from) && evidence.plane.Has(one.to)) {
      rates[{from, to}] += one.bytes_per_second;
    }
  }
  std::map<int, int> partners;
  std::map<std::pair<int, int>, double> reached;
  for (const auto& [pair, rate] : rates) {
    const auto back = rates.find({pair.second, pair.first});
    if (back == rates.end() || !partners.emplace(pair.first, pair.second).second) return {};
    if (pair.first > pair.second) continue;
    const size_t a = At(pair.first);
    const size_t b = At(pair.second);
    reached[pair] = (rate / Possible(evidence, a, b) + back->second / Possible(evidence, b, a)) / 2;
  }
  return reached;
}

bool IsSlow(double reached) {
  return reached < kSlow;
}

/// Returns whether a full rate of this pair would mean anything: their NICs are as fast as each
/// other.
bool FillsBoth(const RackEvidence& evidence, size_t a, size_t b) {
  const double least = std::min(Possible(evidence, a, b), Possible(evidence, b, a));
  return least >= kFull * std::max({evidence.sends[a], evidence.sends[b]});
}

/// Judges pairs by pairings. A slow pair is apart, because only the fabric's links are shared. A
/// full pair is together if the others of its pairing were slow, because the links between racks
/// then had more than they could carry.
void WeighPairings(const std::vector<MeasuredSet>& sets, RackEvidence* evidence) {
  const size_t n = evidence->plane.hosts.size();
  PairMatrix tests(n, 0);
  for (const MeasuredSet& set : sets) {
    const auto reached = Pairing(set.transfers, *evidence);
    const auto slow = std::count_if(reached.begin(), reached.end(),
                                    [](const auto& o) { return IsSlow(o.second); });
    for (const auto& [pair, part] : reached) {
      const size_t a = At(pair.first);
      const size_t b = At(pair.second);
      const double before = evidence->reached.at(a, b);
      if (std::isnan(before) || part < before) evidence->reached.Set(a, b, part);
      const bool tested = 2 * slow >= static_cast<std::ptrdiff_t>(reached.size()) - 1 && slow > 0;
      if (part < kFull) {
        const double known = evidence->apart_by_rate.at(a, b);
        const double apart = 1 - Ramp(part, kSlow, kFull);
        evidence->apart_by_rate.Set(a, b, std::isnan(known) ? apart : std::max(known, apart));
      } else if (tested && FillsBoth(*evidence, a, b)) {
        tests.Set(a, b, tests.at(a, b) + set.times);
      }
    }
  }
  // A single full result may be due to ECMP giving the pair a way to itself.
  const double enough = n <= size_t{kFewHosts} ? 2 : 1;
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const bool known = !std::isnan(evidence->apart_by_rate.at(a, b));
      if (!known && tests.at(a, b) >= enough) evidence->apart_by_rate.Set(a, b, 0);
    }
  }
}

void FindLosses(const ProbeSets& sets, const MeasuredSets& measured, RackEvidence* evidence) {
  const std::vector<int>& hosts = evidence->plane.hosts;
  for (size_t a = 0; a < hosts.size(); ++a) {
    for (size_t b = a + 1; b < hosts.size(); ++b) {
      const std::vector<int> both = {hosts[a], hosts[b]};
      const std::vector<int> others = sets.AllBut(both);
      if (others.empty()) continue;
      const double total = TotalRate(measured, sets.From(both, others), evidence->plane);
      if (total == 0) continue;
      double receivers = 0;
      for (size_t i = 0; i < hosts.size(); ++i) {
        if (i != a && i != b) receivers += evidence->receives[i];
      }
      const double possible = std::min(evidence->sends[a] + evidence->sends[b], receivers);
      evidence->lost.Set(a, b, std::max(0.0, 1 - total / possible));
    }
  }
}

/// Two hosts that share a link out are together. A host that shares one with a third host and not
/// with the other is apart from that other.
void WeighLosses(RackEvidence* evidence) {
  const size_t n = evidence->plane.hosts.size();
  std::vector<bool> shares(n);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) shares[a] = shares[a] || evidence->lost.at(a, b) > kSharesLink;
  }
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      const double lost = evidence->lost.at(a, b);
      if (std::isnan(lost) || !std::isnan(evidence->apart_by_rate.at(a, b))) continue;
      if (lost > kSharesLink) evidence->apart_by_rate.Set(a, b, 0);
      if (lost < kSharesNone && (shares[a] || shares[b])) {
        evidence->apart_by_rate.Set(a, b, kProbablyApart);
      }
    }
  }
}

/// Returns, for two hosts, whether they are apart from the same others (0) or not (1); NaN if
/// neither is apart from any host.
PairMatrix CompareProfiles(const PairMatrix& apart) {
  const size_t n = apart.size();
  PairMatrix profiles(n);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      double either = 0;
      double only_one = 0;
      for (size_t i = 0; i < n; ++i) {
        const double from_a = apart.at(a, i);
        const double from_b = apart.at(b, i);
        if (i == a || i == b || std::isnan(from_a) || std::isnan(from_b)) continue;
        either += std::max(from_a, from_b);
        only_one += std::abs(from_a - from_b);
      }
      if (either > 0.5) profiles.Set(a, b, only_one / either);
    }
  }
  return profiles;
}

/// A pair that is far though a third host is near to both is suspect: it counts as undecided, and
/// the other evidence decides.
PairMatrix FarByLatency(const RackEvidence& evidence) {
  const size_t n = evidence.plane.hosts.size();
  PairMatrix own(n, 0);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) own.Set(a, b, FarByLatency(evidence, a, b));
  }
  PairMatrix far = own;
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      if (own.at(a, b) < kApart) continue;
      for (size_t i = 0; i < n; ++i) {
        if (i == a || i == b) continue;
        if (own.at(a, i) < kNear && own.at(b, i) < kNear) far.Set(a, b, kApart);
      }
    }
  }
  return far;
}

void Combine(RackEvidence* evidence) {
  const size_t n = evidence->plane.hosts.size();
  const PairMatrix profiles = CompareProfiles(evidence->apart_by_rate);
  const PairMatrix far = FarByLatency(*evidence);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      double by_rate = evidence->apart_by_rate.at(a, b);
      double weight = 1;
      if (std::isnan(by_rate)) {
        by_rate = profiles.at(a, b);
        weight = kWeightOfProfile;
      }
      if (std::isnan(by_rate)) by_rate = weight = 0;
      const double by_latency = evidence->latency_weight * far.at(a, b);
      const double sum = weight + evidence->latency_weight;
      evidence->apart.Set(a, b, sum == 0 ? 0 : (weight * by_rate + by_latency) / sum);
    }
  }
}

}  // namespace

int RackEvidence::Racks() const {
  return racks.empty() ? 0 : *std::max_element(racks.begin(), racks.end()) + 1;
}

std::vector<int> RackEvidence::HostsOf(int rack) const {
  std::vector<int> hosts;
  for (size_t i = 0; i < racks.size(); ++i) {
    if (racks[i] == rack) hosts.push_back(plane.hosts[i]);
  }
  return hosts;
}

double MostThatLasts(std::vector<double> rates) {
  std::sort(rates.rbegin(), rates.rend());
  if (rates.empty()) return 0;
  return rates.size() > 1 && rates[1] >= kSeenAgain * rates[0] ? rates[1] : rates[0];
}

std::vector<double> TotalRates(const MeasuredSets& measured, const TransferSet& set,
                               const Plane& plane) {
  std::vector<double> totals;
  for (const std::vector<double>& rates : measured.EachTime(set)) {
    double total = 0;
    for (size_t i = 0; i < rates.size(); ++i) {
      if (plane.Has(set[i].from) && plane.Has(set[i].to)) total += rates[i];
    }
    totals.push_back(total);
  }
  return totals;
}

double TotalRate(const MeasuredSets& measured, const TransferSet& set, const Plane& plane) {
  const std::vector<double> totals = TotalRates(measured, set, plane);
  return totals.empty() ? 0 : Median(totals);
}

RackEvidence WeighEvidence(const Measurements& measurements, const ProbeSets& sets,
                           const MeasuredSets& measured, const Plane& plane) {
  const size_t n = plane.hosts.size();
  RackEvidence evidence{.plane = plane,
                        .sends = std::vector<double>(n),
                        .receives = std::vector<double>(n),
                        .round_trip = PairMatrix(n),
                        .latency = {},
                        .reached = PairMatrix(n),
                        .lost = PairMatrix(n),
                        .apart_by_rate = PairMatrix(n),
                        .apart = PairMatrix(n, 0),
                        .racks = {}};
  const std::vector<MeasuredSet> all = measured.All();
  FindRoundTrips(measurements, &evidence);
  WeighLatency(&evidence);
  FindRates(measurements, &evidence);
  WeighPairings(all, &evidence);
  FindLosses(sets, measured, &evidence);
  WeighLosses(&evidence);
  Combine(&evidence);
  evidence.racks = ClusterByAverageLinkage(evidence.apart, kApart);
  return evidence;
}

}  // namespace harmonaize
