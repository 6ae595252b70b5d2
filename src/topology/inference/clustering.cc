#include "src/topology/inference/clustering.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace harmonaize {
namespace {

double AverageDistance(const PairMatrix& distances, const std::vector<size_t>& a,
                       const std::vector<size_t>& b) {
  double sum = 0;
  for (const size_t x : a) {
    for (const size_t y : b) sum += distances.at(x, y);
  }
  return sum / static_cast<double>(a.size() * b.size());
}

}  // namespace

std::vector<double> PairMatrix::Known() const {
  std::vector<double> known;
  for (size_t a = 0; a < n_; ++a) {
    for (size_t b = a + 1; b < n_; ++b) {
      if (!std::isnan(at(a, b))) known.push_back(at(a, b));
    }
  }
  return known;
}

double Median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

TwoClasses SplitInTwo(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  TwoClasses best;
  double least = std::numeric_limits<double>::infinity();
  // The squares of the differences from the mean are the sum of squares less the square of the sum.
  double sum_before = 0;
  double squares_before = 0;
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  size_t best_cut = 0;
  for (size_t cut = 1; cut < values.size(); ++cut) {
    sum_before += values[cut - 1];
    squares_before += values[cut - 1] * values[cut - 1];
    if (values[cut] == values[cut - 1]) continue;
    const double before = static_cast<double>(cut);
    const double after = static_cast<double>(values.size() - cut);
    const double within = squares_before - sum_before * sum_before / before +
                          (squares - squares_before) -
                          (sum - sum_before) * (sum - sum_before) / after;
    if (within >= least) continue;
    least = within;
    best_cut = cut;
  }
  if (best_cut == 0) return best;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(best_cut);
  best.low = Median({values.begin(), middle});
  best.high = Median({middle, values.end()});
  best.spread = std::sqrt(std::max(0.0, least) / static_cast<double>(values.size()));
  // Two exact classes have the largest separation that a double can tell.
  best.separation = (best.high - best.low) / std::max(best.spread, 1e-6 * std::abs(best.high));
  return best;
}

std::vector<int> ClusterByAverageLinkage(const PairMatrix& distances, double most) {
  std::vector<std::vector<size_t>> clusters;
  for (size_t i = 0; i < distances.size(); ++i) clusters.push_back({i});
  while (clusters.size() > 1) {
    size_t first = 0;
    size_t second = 0;
    double nearest = most;
    for (size_t a = 0; a < clusters.size(); ++a) {
      for (size_t b = a + 1; b < clusters.size(); ++b) {
        const double distance = AverageDistance(distances, clusters[a], clusters[b]);
        if (distance >= nearest) continue;
        nearest = distance;
        first = a;
        second = b;
      }
    }
    if (second == 0) break;
    clusters[first].insert(clusters[first].end(), clusters[second].begin(), clusters[second].end());
    clusters.erase(clusters.begin() + static_cast<std::ptrdiff_t>(second));
  }
  std::vector<int> cluster_of(distances.size());
  for (size_t c = 0; c < clusters.size(); ++c) {
    for (const size_t thing : clusters[c]) cluster_of[thing] = static_cast<int>(c);
  }
  return cluster_of;
}

std::vector<double> Silhouettes(const PairMatrix& distances, const std::vector<int>& clusters) {
  const int count = clusters.empty() ? 0 : *std::max_element(clusters.begin(), clusters.end()) + 1;
  std::vector<double> silhouettes(clusters.size());
  if (count < 2) return silhouettes;
  for (size_t i = 0; i < clusters.size(); ++i) {
    std::vector<double> sums(static_cast<size_t>(count));
    std::vector<double> numbers(static_cast<size_t>(count));
    for (size_t j = 0; j < clusters.size(); ++j) {
      if (j == i) continue;
      sums[static_cast<size_t>(clusters[j])] += distances.at(i, j);
      numbers[static_cast<size_t>(clusters[j])] += 1;
    }
    double own = 0;
    double next = std::numeric_limits<double>::infinity();
    for (int c = 0; c < count; ++c) {
      const size_t at = static_cast<size_t>(c);
      if (numbers[at] == 0) continue;
      const double distance = sums[at] / numbers[at];
      if (c == clusters[i]) {
        own = distance;
      } else {
        next = std::min(next, distance);
      }
    }
    const double larger = std::max(own, next);
    if (larger > 0) silhouettes[i] = (next - own) / larger;
  }
  return silhouettes;
}

}  // namespace harmonaize
