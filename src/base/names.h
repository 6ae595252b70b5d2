#pragma once

#include <span>
#include <string>
#include <string_view>

namespace harmonaize {

/// The candidate with the smallest edit distance (Levenshtein, 1966) to `name`, or "" when none is
/// near enough to be a likely slip of the pen.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

/// ", did you mean 'x'?" or "".
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace harmonaize
