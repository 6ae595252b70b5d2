#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace harmonaize::daemon {

/// Most ranks that a sentence names; a tenant may make communicators of a million.
inline constexpr size_t kMostNamedRanks = 32;

/// Returns "rank 3", "ranks 2, 3" or "ranks 0, 1, ... 31 and 68 more". `ranks` may be only the
/// first of `total`.
template <typename Number>
std::string RankList(const std::vector<Number>& ranks, size_t total) {
  const size_t named = std::min(ranks.size(), kMostNamedRanks);
  const auto end = std::next(ranks.begin(), static_cast<std::ptrdiff_t>(named));
  std::string text =
      fmt::format("rank{} {}", total == 1 ? "" : "s", fmt::join(ranks.begin(), end, ", "));
  if (named < total) text += fmt::format(" and {} more", total - named);
  return text;
}

/// Returns "1 rank" or "3 ranks".
inline std::string CountedRanks(int32_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

template <typename Number>
std::string RankList(const std::vector<Number>& ranks) {
  return RankList(ranks, ranks.size());
}

}  // namespace harmonaize::daemon
