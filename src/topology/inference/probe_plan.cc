#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "src/topology/inference/inference.h"
#include "src/topology/inference/measurement_keys.h"
#include "src/topology/inference/rack_evidence.h"
#include "src/topology/inference/ring_evidence.h"

namespace harmonaize {
namespace {

// Most hosts with which every pair meets in the tournament.
constexpr int kFullTournament = 64;
// Number of measurements of a set whose result is in doubt.
constexpr int kTimesWhenInDoubt = 3;
// Passes over round trips with few hosts: the median of five is right while two are wrong.
constexpr size_t kPassesOfFew = 5;
// Passes over round trips with many hosts, where each pass takes long.
constexpr size_t kPassesOfMany = 3;
// Factor on the time of a set in which many connections meet in one place.
constexpr double kWhereManyMeet = 3;

/// Asks the questions of probing in their order, until one has no answer yet.
class ProbePlan {
 public:
  explicit ProbePlan(const Measurements& measurements)
      : measurements_(measurements), sets_(measurements), measured_(measurements) {}

  NextMeasurements Next(int most_sets) {
    AskRoundTrips();
    if (!next_.empty() || sets_.planes().empty()) return next_;
    const int hosts = sets_.hosts();
    if (most_sets == 0) most_sets = 200 + 3 * hosts;
    if (static_cast<int>(measurements_.concurrent.size()) >= most_sets) return next_;
    AskTournament(1);
    if (hosts <= kFewHosts) AskEachWithAll();
    if (!next_.empty()) return next_;
    if (hosts <= kFewHosts && AnySlow()) AskTournament(kTimesWhenInDoubt);
    if (!next_.empty()) return next_;
    const RingEvidence ring = LookForRing(measurements_, sets_, measured_);
    Ask(ring.missing, 1, "whether the hosts stand in a ring");
    if (!next_.empty() || !ring.order.empty()) return next_;
    for (const RackEvidence& evidence : Weigh()) {
      if (hosts > kFewHosts) break;
      AskUnderLoad(evidence);
    }
    for (const RackEvidence& evidence : Weigh()) {
      if (hosts > kFewHosts) break;
      AskSharing(evidence);
    }
    for (const RackEvidence& evidence : Weigh()) AskBoundaries(evidence);
    return next_;
  }

 private:
  std::string Name(int host) const { return measurements_.hosts[static_cast<size_t>(host)].name; }

  void Ask(const TransferSet& set, int times, std::string why, double times_as_long = 1) {
    if (!next_.empty() || set.empty() || measured_.Times(set) >= times) return;
    next_.transfers = set;
    next_.times_as_long = times_as_long;
    next_.why = std::move(why);
  }

  /// Asks for the next pass over all pairs that reach each other. Every other pass goes backwards,
  /// so that slow drift affects all pairs alike.
  void AskRoundTrips() {
    const size_t passes = sets_.hosts() <= kFewHosts ? kPassesOfFew : kPassesOfMany;
    std::map<NicPair, size_t> known;
    for (const RoundTrip& trip : measurements_.round_trips) {
      known[PairOf(trip.from, trip.to)] += trip.reachable ? 1 : passes;
    }
    size_t pass = passes;
    const std::vector<std::pair<Endpoint, Endpoint>> all = AllPairs();
    std::vector<size_t> times;
    for (const auto& [a, b] : all) {
      times.push_back(known[PairOf(a, b)]);
      pass = std::min(pass, times.back());
    }
    if (pass == passes) return;
    for (size_t i = 0; i < all.size(); ++i) {
      if (times[i] == pass) next_.round_trips.push_back(all[i]);
    }
    if (pass % 2 == 1) std::reverse(next_.round_trips.begin(), next_.round_trips.end());
    next_.why = fmt::format("round trips of all pairs, pass {} of {}", pass + 1, passes);
  }

  /// Returns all pairs of NICs, in the order of the tournament: neighbours in it have no host in
  /// common.
  std::vector<std::pair<Endpoint, Endpoint>> AllPairs() const {
    std::vector<std::pair<Endpoint, Endpoint>> all;
    const auto nics = [this](int host) {
      return static_cast<int>(measurements_.hosts[static_cast<size_t>(host)].nics.size());
    };
    for (int round = 0; round < sets_.Rounds(); ++round) {
      for (const auto& [a, b] : sets_.PairsOfRound(round)) {
        for (int i = 0; i < nics(a); ++i) {
          for (int j = 0; j < nics(b); ++j) all.push_back({{a, i}, {b, j}});
        }
      }
    }
    return all;
  }

  void AskTournament(int times) {
    int rounds = sets_.Rounds();
    if (sets_.hosts() > kFullTournament) {
      rounds = 8 * static_cast<int>(std::ceil(std::log2(sets_.hosts())));
    }
    for (int i = 0; i < rounds; ++i) {
      // If only some of many rounds are used, they are spread evenly.
      const int round = static_cast<int>(static_cast<int64_t>(i) * sets_.Rounds() / rounds);
      Ask(sets_.Both(sets_.PairsOfRound(round)), times,
          fmt::format("round {} of {} of the tournament", i + 1, rounds));
    }
  }

  void AskEachWithAll() {
    for (int host = 0; host < sets_.hosts(); ++host) {
      const std::vector<int> others = sets_.AllBut({host});
      Ask(sets_.From({host}, others), 1, fmt::format("{} to all", Name(host)));
      Ask(sets_.From(others, {host}), 1, fmt::format("all to {}", Name(host)), kWhereManyMeet);
    }
  }

  std::vector<RackEvidence> Weigh() const {
    std::vector<RackEvidence> all;
    for (const Plane& plane : sets_.planes()) {
      all.push_back(WeighEvidence(measurements_, sets_, measured_, plane));
    }
    return all;
  }

  bool AnySlow() const {
    for (const RackEvidence& evidence : Weigh()) {
      const std::vector<double> reached = evidence.reached.Known();
      if (std::any_of(reached.begin(), reached.end(), [](double one) { return one < kSlow; })) {
        return true;
      }
    }
    return false;
  }

  /// Asks again for a pair that was never slow, because it may never have met others' traffic: now
  /// as many slow pairs as possible between the others load the links between racks.
  void AskUnderLoad(const RackEvidence& evidence) {
    const std::vector<int>& hosts = evidence.plane.hosts;
    for (size_t a = 0; a < hosts.size(); ++a) {
      for (size_t b = a + 1; b < hosts.size(); ++b) {
        if (!std::isnan(evidence.apart_by_rate.at(a, b))) continue;
        const std::vector<std::pair<int, int>> pairs = PairsUnderLoad(evidence, a, b);
        if (pairs.size() < 2) continue;
        Ask(sets_.Both(pairs), 2,
            fmt::format("{} and {} while other pairs load the links between racks", Name(hosts[a]),
                        Name(hosts[b])));
      }
    }
  }

  static std::vector<std::pair<int, int>> PairsUnderLoad(const RackEvidence& evidence, size_t a,
                                                         size_t b) {
    const std::vector<int>& hosts = evidence.plane.hosts;
    std::vector<bool> taken(hosts.size());
    taken[a] = taken[b] = true;
    std::vector<std::pair<int, int>> pairs = {{hosts[a], hosts[b]}};
    for (size_t c = 0; c < hosts.size(); ++c) {
      for (size_t d = c + 1; d < hosts.size(); ++d) {
        if (taken[c] || taken[d] || !(evidence.apart_by_rate.at(c, d) > 0.5)) continue;
        taken[c] = taken[d] = true;
        pairs.emplace_back(hosts[c], hosts[d]);
      }
    }
    return pairs;
  }

  /// Asks what pairs in a tournament cannot show, as where NICs differ or racks are small.
  void AskSharing(const RackEvidence& evidence) {
    const std::vector<int>& hosts = evidence.plane.hosts;
    if (hosts.size() < 4) return;
    for (size_t a = 0; a < hosts.size(); ++a) {
      for (size_t b = a + 1; b < hosts.size(); ++b) {
        const double lost = evidence.lost.at(a, b);
        if (std::isnan(lost) && !std::isnan(evidence.apart_by_rate.at(a, b))) continue;
        const std::vector<int> both = {hosts[a], hosts[b]};
        Ask(sets_.From(both, sets_.AllBut(both)), lost > 0.1 ? kTimesWhenInDoubt : 1,
            fmt::format("{} and {} together", Name(hosts[a]), Name(hosts[b])));
      }
    }
  }

  void AskBoundaries(const RackEvidence& evidence) {
    if (evidence.Racks() < 2) return;
    for (int rack = 0; rack < evidence.Racks(); ++rack) {
      const std::vector<int> within = evidence.HostsOf(rack);
      std::vector<int> others = evidence.plane.hosts;
      std::erase_if(others, [&](int host) {
        return std::find(within.begin(), within.end(), host) != within.end();
      });
      const std::string why =
          fmt::format("the {} hosts of {}'s rack", within.size(), Name(within.front()));
      Ask(sets_.From(within, others), kTimesWhenInDoubt, why + " to the rest", kWhereManyMeet);
      Ask(sets_.From(others, within), kTimesWhenInDoubt, "the rest to " + why, kWhereManyMeet);
    }
  }

  const Measurements& measurements_;
  ProbeSets sets_;
  MeasuredSets measured_;
  NextMeasurements next_;
};

}  // namespace

NextMeasurements NextProbes(const Measurements& measurements, const ProbeOptions& options) {
  return ProbePlan(measurements).Next(options.most_sets);
}

}  // namespace harmonaize
