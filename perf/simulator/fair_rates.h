#pragma once

#include <cstddef>
#include <vector>

namespace harmonaize::simulator {

/// Computes max-min fair rates of connections over directed links (progressive filling; Bertsekas
/// and Gallager, "Data Networks", 1992): no connection can have more unless one that has no more
/// than it gets less. TCP approaches such rates in the long run, but not while it starts.
class FairRates {
 public:
  /// `capacities`: those of the links, in bytes a second.
  explicit FairRates(std::vector<double> capacities);

  /// Adds a connection over these links and returns its number.
  size_t Add(std::vector<int> links);

  /// Returns the rates of the connections listed in `active`, in its order. The time is linear in
  /// the links that they cross, except for a logarithm.
  std::vector<double> Of(const std::vector<size_t>& active);

  const std::vector<int>& LinksOf(size_t connection) const { return links_[connection]; }

 private:
  std::vector<double> capacities_;
  std::vector<std::vector<int>> links_;  // by connection
  // By link, valid while Of runs.
  std::vector<double> left_;
  std::vector<int> crossing_;
  std::vector<std::vector<size_t>> users_;  // indices in `active`
};

}  // namespace harmonaize::simulator
