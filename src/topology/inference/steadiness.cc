#include "src/topology/inference/steadiness.h"

#include <map>

#include "src/topology/inference/measurement_keys.h"
#include "src/topology/inference/rack_evidence.h"
#include "src/topology/inference/ring_evidence.h"

namespace harmonaize {
namespace {

/// Lets through what does not belong to the part: for repeated measurements, all but some of the
/// times.
template <typename Key>
class PartFilter {
 public:
  explicit PartFilter(int part) : part_(part) {}
  void Announce(const Key& key) { ++times_[key]; }
  bool Keeps(const Key& key) { return seen_[key]++ % kSteadinessParts != part_ || times_[key] < 2; }
  bool AnyTwice() const {
    for (const auto& [key, times] : times_) {
      if (times > 1) return true;
    }
    return false;
  }

 private:
  const int part_;
  std::map<Key, int> times_;
  std::map<Key, int> seen_;
};

/// Leaves the part out; keeps everything if nothing was measured twice.
bool LeaveOut(const Measurements& measurements, int part, Measurements* left) {
  PartFilter<NicPair> trips(part);
  PartFilter<std::vector<TransferKey>> sets(part);
  for (const RoundTrip& trip : measurements.round_trips) {
    trips.Announce(PairOf(trip.from, trip.to));
  }
  for (const ConcurrentTransfers& set : measurements.concurrent) sets.Announce(KeyOfSet(set));
  left->hosts = measurements.hosts;
  for (const RoundTrip& trip : measurements.round_trips) {
    if (trips.Keeps(PairOf(trip.from, trip.to))) left->round_trips.push_back(trip);
  }
  for (const ConcurrentTransfers& set : measurements.concurrent) {
    if (sets.Keeps(KeyOfSet(set))) left->concurrent.push_back(set);
  }
  return trips.AnyTwice() || sets.AnyTwice();
}

FabricShape ShapeOf(const Measurements& measurements) {
  FabricShape shape;
  const ProbeSets sets(measurements);
  const MeasuredSets measured(measurements);
  shape.ring = LookForRing(measurements, sets, measured).order;
  for (const Plane& plane : sets.planes()) {
    const RackEvidence evidence = WeighEvidence(measurements, sets, measured, plane);
    std::vector<std::vector<int>>& racks = shape.racks.emplace_back();
    for (int rack = 0; rack < evidence.Racks(); ++rack) racks.push_back(evidence.HostsOf(rack));
  }
  return shape;
}

}  // namespace

std::vector<FabricShape> ShapesWithoutParts(const Measurements& measurements) {
  std::vector<FabricShape> shapes;
  for (int part = 0; part < kSteadinessParts; ++part) {
    Measurements left;
    if (!LeaveOut(measurements, part, &left)) return {};
    shapes.push_back(ShapeOf(left));
  }
  return shapes;
}

}  // namespace harmonaize
