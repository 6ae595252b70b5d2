#include "src/base/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace harmonaize {
namespace {

/// Longest name, in bytes, for which a near one is sought: names come from strangers, and the
/// search takes as long as the name is.
constexpr size_t kLongestMistyped = 128;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  if (name.size() > kLongestMistyped) return nearest;
  // A name with half of its letters wrong is a different word, not a slip.
  size_t best = name.size() / 2 + 1;
  for (std::string_view candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

namespace {

std::string Question(std::string_view nearest) {
  return nearest.empty() ? std::string() : fmt::format(", did you mean '{}'?", nearest);
}

/// Returns what follows the last dot.
std::string_view LastPart(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates) {
  return Question(NearestName(name, candidates));
}

std::string DidYouMeanKey(std::string_view key, std::span<const std::string_view> candidates) {
  if (key.size() > kLongestMistyped) return "";
  std::vector<std::string_view> same_end;
  for (const std::string_view candidate : candidates) {
    const bool in_list = candidate.find('[') != std::string_view::npos;
    if (!in_list && LastPart(candidate) == LastPart(key)) same_end.push_back(candidate);
  }
  if (same_end.empty()) return DidYouMean(key, candidates);
  // All of them are the key in another table: the one in the most similar table.
  return Question(*std::min_element(same_end.begin(), same_end.end(),
                                    [&](std::string_view one, std::string_view other) {
                                      return EditDistance(key, one) < EditDistance(key, other);
                                    }));
}

}  // namespace harmonaize
