#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace harmonaize {

/// A number for each unordered pair of n items; NaN where it is not known.
class PairMatrix {
 public:
  explicit PairMatrix(size_t n = 0, double value = std::numeric_limits<double>::quiet_NaN())
      : n_(n), values_(n * n, value) {}
  size_t size() const { return n_; }
  double at(size_t a, size_t b) const { return values_[a * n_ + b]; }
  void Set(size_t a, size_t b, double value) {
    values_[a * n_ + b] = value;
    values_[b * n_ + a] = value;
  }
  /// Returns the known numbers of pairs of two different items.
  std::vector<double> Known() const;

 private:
  size_t n_;
  std::vector<double> values_;
};

double Median(std::vector<double> values);

/// Values divided into two classes, where the variance within them is least (Otsu, 1979).
struct TwoClasses {
  double low = 0;  ///< Medians of the classes.
  double high = 0;
  double spread = 0;  ///< Root mean square distance of values from their class.
  /// (high - low) / spread. About 3 for values of one normal distribution.
  double separation = 0;
};
/// Returns one class (separation 0) when there are fewer than two different values.
TwoClasses SplitInTwo(std::vector<double> values);

/// Clusters by average linkage (Sokal and Michener, 1958): joins the two nearest clusters until all
/// that are left are `most` apart or more. Returns, by item, the number of its cluster; clusters
/// are numbered by their first item. Requires: all distances are known.
std::vector<int> ClusterByAverageLinkage(const PairMatrix& distances, double most);

/// Returns how much nearer an item is to its own cluster than to the next one, from -1 to 1
/// (Rousseeuw, 1987: silhouettes). An item that is alone counts as at distance 0 to its own; 0 for
/// all when there is one cluster.
std::vector<double> Silhouettes(const PairMatrix& distances, const std::vector<int>& clusters);

}  // namespace harmonaize
