#pragma once

#include <span>
#include <string>
#include <string_view>

namespace harmonaize {

/// Returns the candidate with the smallest edit distance (Levenshtein, 1966) to `name`, or "" when
/// none is near enough to be a likely typing error.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> candidates);

/// Returns ", did you mean 'x'?" or "".
std::string DidYouMean(std::string_view name, std::span<const std::string_view> candidates);
/// The same of a key with the names of its tables before it: a key of the same name in another
/// table comes first.
std::string DidYouMeanKey(std::string_view key, std::span<const std::string_view> candidates);

}  // namespace harmonaize
