#pragma once

#include <map>
#include <utility>
#include <vector>

#include "src/topology/inference/measurement_keys.h"
#include "src/topology/inference/measurements.h"

namespace harmonaize {

/// A transfer that is to be measured; the members are those of MeasuredTransfer.
struct TransferRequest {
  Endpoint from;
  Endpoint to;
  int connections = 1;
};
/// Transfers that run at the same time.
using TransferSet = std::vector<TransferRequest>;

/// NICs that reach each other: a network of its own; a rail where there are several.
struct Plane {
  std::vector<int> hosts;              ///< Hosts that have a NIC in it, in order.
  std::vector<std::vector<int>> nics;  ///< For each of `hosts`: its NICs in it.

  /// Returns the index in `hosts`; -1: the host has no NIC here.
  int PlaceOf(int host) const;
  bool Has(Endpoint endpoint) const;
};

/// Returns the connected components of NICs by the round trips that worked, by their first NIC.
/// NICs that reach nobody are in none.
std::vector<Plane> FindPlanes(const Measurements& measurements);

/// Makes the sets of transfers. All planes are measured at once, because they have nothing in
/// common. Equal questions give equal sets, so results are found again.
class ProbeSets {
 public:
  explicit ProbeSets(const Measurements& measurements);

  const std::vector<Plane>& planes() const { return planes_; }
  int hosts() const { return hosts_; }

  /// Returns the rounds of a tournament in which each host meets each other one once: the circle
  /// method.
  int Rounds() const { return hosts_ % 2 == 0 ? hosts_ - 1 : hosts_; }
  std::vector<std::pair<int, int>> PairsOfRound(int round) const;
  /// Returns a set in which all NICs of the two hosts of each pair send to each other, both ways.
  TransferSet Both(const std::vector<std::pair<int, int>>& pairs) const;
  /// Returns a set in which one host's NICs send to another's, alone.
  TransferSet Alone(int from, int to) const;
  /// Returns a set in which each of `senders` sends to each of `receivers` other than itself. If
  /// that would be too many, each sender has eight receivers, which are spread evenly.
  TransferSet From(const std::vector<int>& senders, const std::vector<int>& receivers) const;
  /// Returns a set in which each host sends to the next and, by its other NIC, to the one before.
  TransferSet Around(const std::vector<int>& order) const;
  std::vector<int> AllBut(const std::vector<int>& some) const;

 private:
  void Add(int from, int to, int connections, TransferSet* set) const;

  int hosts_;
  std::vector<Plane> planes_;
};

struct MeasuredSet {
  ConcurrentTransfers transfers;  ///< Transfers with median rates.
  int times = 0;
};

/// Finds the results of a set, whatever the order of its transfers.
class MeasuredSets {
 public:
  explicit MeasuredSets(const Measurements& measurements);
  /// Returns how often the set was measured.
  int Times(const TransferSet& set) const;
  /// Returns the rate of each transfer, each time that the set was measured.
  std::vector<std::vector<double>> EachTime(const TransferSet& set) const;
  /// Returns the median rate of each transfer; empty when the set was not measured.
  std::vector<double> Rates(const TransferSet& set) const;
  std::vector<MeasuredSet> All() const;

 private:
  using Key = std::vector<TransferKey>;
  std::map<Key, std::vector<std::vector<double>>> rates_;  // in the key's order
};

}  // namespace harmonaize
