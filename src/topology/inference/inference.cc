#include "src/topology/inference/inference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/topology/inference/rack_evidence.h"
#include "src/topology/inference/ring_evidence.h"
#include "src/topology/inference/steadiness.h"

namespace harmonaize {
namespace {

size_t At(int index) {
  return static_cast<size_t>(index);
}

/// Rounds to a thousandth: the measurements are not more exact.
double Rounded(double bytes_per_second) {
  const double unit = std::pow(10, std::floor(std::log10(bytes_per_second)) - 2);
  return std::round(bytes_per_second / unit) * unit;
}

double Clamp(double value) {
  return std::clamp(value, 0.0, 1.0);
}

double AverageBetween(const PairMatrix& matrix, const std::vector<int>& racks, int rack,
                      bool within) {
  double sum = 0;
  double number = 0;
  for (size_t a = 0; a < racks.size(); ++a) {
    for (size_t b = 0; b < racks.size(); ++b) {
      if (a == b || racks[a] != rack || (racks[b] == rack) != within) continue;
      if (std::isnan(matrix.at(a, b))) continue;
      sum += matrix.at(a, b);
      number += 1;
    }
  }
  return number == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / number;
}

/// Returns the fraction of pairs from a rack to others that transfers show to be apart, less the
/// same fraction of pairs within.
double ApartByRate(const RackEvidence& evidence, int rack) {
  const std::vector<int>& racks = evidence.racks;
  double apart = 0;
  double pairs = 0;
  for (size_t a = 0; a < racks.size(); ++a) {
    for (size_t b = 0; b < racks.size(); ++b) {
      if (racks[a] != rack || racks[b] == rack) continue;
      pairs += 1;
      if (!std::isnan(evidence.apart_by_rate.at(a, b))) apart += evidence.apart_by_rate.at(a, b);
    }
  }
  const double within = AverageBetween(evidence.apart_by_rate, racks, rack, true);
  return Clamp(apart / pairs - (std::isnan(within) ? 0 : within));
}

/// Returns how well the round trips of a rack's hosts agree with its being one.
double FarByLatency(const RackEvidence& evidence, int rack) {
  if (evidence.latency_weight == 0) return 0;
  const double outside = AverageBetween(evidence.round_trip, evidence.racks, rack, false);
  double inside = AverageBetween(evidence.round_trip, evidence.racks, rack, true);
  if (std::isnan(inside)) inside = evidence.latency.low;
  return evidence.latency_weight *
         Clamp((outside - inside) / (evidence.latency.high - evidence.latency.low));
}

class FabricBuilder {
 public:
  FabricBuilder(const Measurements& measurements, const std::string& name)
      : measurements_(measurements),
        sets_(measurements),
        measured_(measurements),
        without_parts_(ShapesWithoutParts(measurements)) {
    inferred_.fabric.name = name;
  }

  Result<InferredFabric> Build() {
    for (const Plane& plane : sets_.planes()) {
      evidence_.push_back(WeighEvidence(measurements_, sets_, measured_, plane));
    }
    HZ_RETURN_IF_ERROR(CheckMeasured());
    AddHosts();
    const RingEvidence ring = LookForRing(measurements_, sets_, measured_);
    if (ring.order.empty()) {
      NameRacks();
      for (size_t plane = 0; plane < evidence_.size(); ++plane)
        AddSwitches(static_cast<int>(plane));
      for (size_t plane = 0; plane < evidence_.size(); ++plane) AddLinks(static_cast<int>(plane));
      JudgeAll();
    } else {
      AddRing(ring);
    }
    DropIdleNics();
    HZ_RETURN_IF_ERROR(ValidateFabric(inferred_.fabric));
    return std::move(inferred_);
  }

 private:
  Status CheckMeasured() const {
    if (evidence_.empty()) {
      return InvalidArgument("no hosts reach each other: measure round trips first");
    }
    for (const RackEvidence& evidence : evidence_) {
      for (size_t i = 0; i < evidence.sends.size(); ++i) {
        if (evidence.sends[i] > 0 && evidence.receives[i] > 0) continue;
        return InvalidArgument("no transfers {} host '{}' were measured: its rate is not known",
                               evidence.sends[i] > 0 ? "to" : "from",
                               Name(evidence.plane.hosts[i]));
      }
    }
    return Status::Ok();
  }

  std::string Name(int host) const { return measurements_.hosts[At(host)].name; }
  std::vector<std::string> NamesOf(const std::vector<int>& hosts) const {
    std::vector<std::string> names;
    for (const int host : hosts) names.push_back(Name(host));
    return names;
  }

  void AddHosts() {
    for (const ProbedHost& host : measurements_.hosts) {
      Node& node = inferred_.fabric.nodes.emplace_back();
      node.name = host.name;
      node.forwards = false;
      for (const ProbedNic& nic : host.nics) {
        node.nics.push_back({.device = nic.device, .address = nic.address, .paths = {}});
      }
    }
  }

  void AddLink(LinkEnd from, LinkEnd to, double forth, double back) {
    Fabric& fabric = inferred_.fabric;
    const int number = static_cast<int>(fabric.links.size());
    for (const LinkEnd& end : {from, to}) {
      if (end.nic >= 0) fabric.nodes[At(end.node)].nics[At(end.nic)].link = number;
    }
    std::string name =
        fmt::format("{}-{}", fabric.nodes[At(from.node)].name, fabric.nodes[At(to.node)].name);
    if (fabric.FindLink(name) >= 0) {
      int more = 1;
      while (fabric.FindLink(fmt::format("{}.{}", name, more)) >= 0) ++more;
      name += fmt::format(".{}", more);
    }
    fabric.links.push_back({.name = std::move(name),
                            .ends = {from, to},
                            .bytes_per_second = {Rounded(forth), Rounded(back)}});
  }

  /// Names a host's rack where all its planes agree.
  void NameRacks() {
    const RackEvidence& first = evidence_.front();
    for (const RackEvidence& other : evidence_) {
      if (other.racks != first.racks || other.plane.hosts != first.plane.hosts) return;
    }
    for (int rack = 0; rack < first.Racks(); ++rack) {
      inferred_.fabric.racks.push_back(fmt::format("rack{}", rack));
      for (const int host : first.HostsOf(rack)) inferred_.fabric.nodes[At(host)].rack = rack;
    }
  }

  /// Returns a switch name that no host has.
  std::string SwitchName(const std::string& kind, int plane, int number) const {
    std::string name = evidence_.size() == 1 ? fmt::format("{}{}", kind, number)
                                             : fmt::format("rail{}-{}{}", plane, kind, number);
    while (inferred_.fabric.FindNode(name) >= 0) name = "inferred-" + name;
    return name;
  }

  void AddSwitches(int plane) {
    const RackEvidence& evidence = evidence_[At(plane)];
    Fabric& fabric = inferred_.fabric;
    first_leaf_.push_back(static_cast<int>(fabric.nodes.size()));
    for (int rack = 0; rack < evidence.Racks(); ++rack) {
      Node leaf{.name = SwitchName("leaf", plane, rack), .kind = NodeKind::kLeaf};
      leaf.rack = fabric.racks.empty() ? -1 : rack;
      fabric.nodes.push_back(std::move(leaf));
    }
    if (evidence.Racks() < 2) return;
    fabric.nodes.push_back({.name = SwitchName("spine", plane, 0), .kind = NodeKind::kSpine});
  }

  void AddLinks(int plane) {
    const RackEvidence& evidence = evidence_[At(plane)];
    for (size_t i = 0; i < evidence.plane.hosts.size(); ++i) {
      const std::vector<int>& nics = evidence.plane.nics[i];
      const double number = static_cast<double>(nics.size());
      for (const int nic : nics) {
        AddLink({evidence.plane.hosts[i], nic}, {first_leaf_[At(plane)] + evidence.racks[i], -1},
                evidence.sends[i] / number, evidence.receives[i] / number);
      }
    }
    if (evidence.Racks() < 2) return;
    const int spine = first_leaf_[At(plane)] + evidence.Racks();
    for (int rack = 0; rack < evidence.Racks(); ++rack) {
      const RackBoundary boundary = Judge(plane, rack);
      AddLink({first_leaf_[At(plane)] + rack, -1}, {spine, -1}, boundary.bytes_per_second_out,
              boundary.bytes_per_second_in);
      inferred_.boundaries.push_back(boundary);
    }
  }

  /// Returns the sum of what hosts were seen to send, or receive.
  static double Sum(const RackEvidence& evidence, const std::vector<double>& rates, int rack,
                    bool within) {
    double sum = 0;
    for (size_t i = 0; i < rates.size(); ++i) {
      if ((evidence.racks[i] == rack) == within) sum += rates[i];
    }
    return sum;
  }

  /// Returns the most that was reached: connections that share an ECMP way by chance leave others
  /// idle, so the most comes nearest.
  double Most(const TransferSet& set, const Plane& plane) const {
    return MostThatLasts(TotalRates(measured_, set, plane));
  }

  /// Lowers the confidence, and says so, if `same` does not hold for all that is found without a
  /// part of the measurements.
  template <typename Same>
  void WeighSteadiness(Same same, double* confidence, std::string* reason) const {
    if (without_parts_.empty()) return;
    const auto agree = static_cast<int>(
        std::count_if(without_parts_.begin(), without_parts_.end(), std::move(same)));
    const auto parts = static_cast<int>(without_parts_.size());
    if (agree == parts) return;
    *confidence *= static_cast<double>(1 + agree) / (1 + parts);
    *reason += fmt::format(
        "; unsteady: what was measured several times says the same in {} of {} selections of it",
        agree, parts);
  }

  RackBoundary Judge(int plane, int rack) const {
    const RackEvidence& evidence = evidence_[At(plane)];
    const std::vector<int> within = evidence.HostsOf(rack);
    std::vector<int> others = evidence.plane.hosts;
    std::erase_if(others, [&](int host) {
      return std::find(within.begin(), within.end(), host) != within.end();
    });
    RackBoundary boundary{.plane = plane, .hosts = NamesOf(within), .reason = ""};
    const double could_send = std::min(Sum(evidence, evidence.sends, rack, true),
                                       Sum(evidence, evidence.receives, rack, false));
    const double could_receive = std::min(Sum(evidence, evidence.sends, rack, false),
                                          Sum(evidence, evidence.receives, rack, true));
    const double out = Most(sets_.From(within, others), evidence.plane);
    const double in = Most(sets_.From(others, within), evidence.plane);
    // If it was not measured, nothing speaks against what the NICs can do.
    boundary.bytes_per_second_out = out > 0 ? out : could_send;
    boundary.bytes_per_second_in = in > 0 ? in : could_receive;
    boundary.limits_out = out > 0 && out < kFull * could_send;
    boundary.limits_in = in > 0 && in < kFull * could_receive;
    const double part = std::min(boundary.bytes_per_second_out / could_send,
                                 boundary.bytes_per_second_in / could_receive);
    const double by_rate = ApartByRate(evidence, rack);
    const double by_latency = FarByLatency(evidence, rack);
    const double by_limit = Clamp((kFull - part) / 0.3);
    boundary.confidence = 1 - (1 - 0.9 * by_rate) * (1 - 0.9 * by_latency) * (1 - 0.6 * by_limit);
    boundary.reason = fmt::format(
        "{:.0f}% of the pairs with other racks, less the share of those within, are slowed down by "
        "others; {}; all together get {:.0f}% of what their NICs could",
        100 * by_rate,
        by_latency > 0 ? fmt::format("round trips within take {:.1f} us and to others {:.1f} us",
                                     1e6 * evidence.latency.low, 1e6 * evidence.latency.high)
                       : "round trips do not tell",
        100 * part);
    WeighSteadiness(
        [&](const FabricShape& shape) {
          if (shape.racks.size() != evidence_.size()) return false;
          const auto& racks = shape.racks[At(plane)];
          return std::find(racks.begin(), racks.end(), within) != racks.end();
        },
        &boundary.confidence, &boundary.reason);
    return boundary;
  }

  void JudgeAll() {
    inferred_.confidence = 1;
    for (const RackBoundary& boundary : inferred_.boundaries) {
      if (boundary.confidence >= inferred_.confidence) continue;
      inferred_.confidence = boundary.confidence;
      inferred_.reason = fmt::format("the least sure rack is that of {}: {}",
                                     boundary.hosts.front(), boundary.reason);
    }
    for (const RackEvidence& evidence : evidence_) {
      if (evidence.Racks() == 1) JudgeOneRack(evidence);
    }
  }

  /// Judges that hosts are not apart: that is as sure as the measurements would have shown it.
  void JudgeOneRack(const RackEvidence& evidence) {
    const size_t n = evidence.plane.hosts.size();
    double tested = 0;
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = a + 1; b < n; ++b) {
        const double reached = evidence.reached.at(a, b);
        const double lost = evidence.lost.at(a, b);
        if (reached >= kFull) tested += n >= 4 && std::isnan(lost) ? 0.7 : 1;
      }
    }
    tested /= static_cast<double>(n * (n - 1) / 2);
    const std::vector<double> trips = evidence.round_trip.Known();
    const double median = Median(trips);
    std::vector<double> off;
    for (const double trip : trips) off.push_back(std::abs(trip - median));
    const double spread = Median(std::move(off)) / median;
    const double even = Clamp(1 - spread / 0.2);
    double confidence = 0.6 * tested + 0.3 * even * tested;
    std::string reason = fmt::format(
        "one rack: {:.0f}% of the pairs kept their full rate while all others were busy, and round "
        "trips differ by {:.0f}%",
        100 * tested, 100 * spread);
    WeighSteadiness(
        [&](const FabricShape& shape) {
          return std::any_of(shape.racks.begin(), shape.racks.end(), [&](const auto& racks) {
            return racks.size() == 1 && racks.front() == evidence.plane.hosts;
          });
        },
        &confidence, &reason);
    if (confidence >= inferred_.confidence) return;
    inferred_.confidence = confidence;
    inferred_.reason = std::move(reason);
  }

  void AddRing(const RingEvidence& ring) {
    inferred_.ring = true;
    for (Node& node : inferred_.fabric.nodes) node.forwards = true;
    const size_t n = ring.order.size();
    for (size_t i = 0; i < n; ++i) {
      const size_t next = (i + 1) % n;
      AddLink({ring.order[i], 0}, {ring.order[next], 1}, ring.forth[i], ring.back[next]);
    }
    const double least = *std::min_element(ring.forth.begin(), ring.forth.end());
    const double most = *std::max_element(ring.forth.begin(), ring.forth.end());
    inferred_.confidence = 0.7 + 0.25 * Clamp(least / most);
    inferred_.reason = fmt::format(
        "a ring ({}): neighbours get one link's rate by both NICs, and all send both ways at once "
        "at full rate",
        fmt::join(NamesOf(ring.order), ", "));
    WeighSteadiness([&](const FabricShape& shape) { return shape.ring == ring.order; },
                    &inferred_.confidence, &inferred_.reason);
  }

  /// Drops NICs that reach nobody: they are no part of the fabric.
  void DropIdleNics() {
    Fabric& fabric = inferred_.fabric;
    for (size_t host = 0; host < measurements_.hosts.size(); ++host) {
      std::vector<Nic>& nics = fabric.nodes[host].nics;
      std::erase_if(nics, [](const Nic& nic) { return nic.link < 0; });
      for (size_t nic = 0; nic < nics.size(); ++nic) {
        for (LinkEnd& end : fabric.links[At(nics[nic].link)].ends) {
          if (end.node == static_cast<int>(host)) end.nic = static_cast<int>(nic);
        }
      }
    }
  }

  const Measurements& measurements_;
  ProbeSets sets_;
  MeasuredSets measured_;
  std::vector<FabricShape> without_parts_;
  std::vector<RackEvidence> evidence_;
  std::vector<int> first_leaf_;  // by plane
  InferredFabric inferred_;
};

}  // namespace

Result<InferredFabric> InferFabric(const Measurements& measurements, const std::string& name) {
  HZ_RETURN_IF_ERROR(ValidateMeasurements(measurements));
  return FabricBuilder(measurements, name).Build();
}

}  // namespace harmonaize
