#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace harmonaize {

/// A number for each unordered pair of n things; NaN where it is not known.
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
  /// What is known of pairs of two different things.
  std::vector<double> Known() const;

 private:
  size_t n_;
  std::vector<double> values_;
};

double Median(std::vector<double> values);

/// Values as two classes, cut where the variance within them is least (Otsu, 1979).
struct TwoClasses {
  double low = 0;  ///< Medians of the classes.
  double high = 0;
  double spread = 0;  ///< Of values around their class: root mean square.
  /// (high - low) / spread. Values of one normal distribution come to about 3.
  double separation = 0;
};
/// One class (separation 0) when there are fewer than two different values.
TwoClasses SplitInTwo(std::vector<double> values);

/// Average linkage (Sokal and Michener, 1958): joins the two nearest clusters until all that are
/// left are `most` apart or more. By thing, the number of its cluster; clusters are numbered by
/// their first thing. All distances have to be known.
std::vector<int> ClusterByAverageLinkage(const PairMatrix& distances, double most);

/// How much nearer a thing is to its own cluster than to the next one, from -1 to 1 (Rousseeuw,
/// 1987: silhouettes). A thing that is alone counts as at distance 0 to its own; 0 for all when
/// there is one cluster.
std::vector<double> Silhouettes(const PairMatrix& distances, const std::vector<int>& clusters);

}  // namespace harmonaize
