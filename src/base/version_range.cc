#include "src/base/version_range.h"

#include <algorithm>
#include <charconv>

namespace harmonaize {
namespace {

std::optional<uint16_t> NumberIn(std::string_view text) {
  uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<uint32_t> LatestOfBoth(const VersionRange& one, const VersionRange& other) {
  const uint32_t latest = std::min(one.latest, other.latest);
  return one.Has(latest) && other.Has(latest) ? std::optional(latest) : std::nullopt;
}

std::string TextOf(const VersionRange& versions) {
  if (versions.oldest == versions.latest) return fmt::format("version {}", versions.latest);
  return fmt::format("versions {} to {}", versions.oldest, versions.latest);
}

Result<VersionRange> ParseVersionRange(std::string_view text) {
  const size_t dash = text.find('-');
  const std::optional<uint16_t> oldest = NumberIn(text.substr(0, dash));
  const std::optional<uint16_t> latest =
      dash == std::string_view::npos ? oldest : NumberIn(text.substr(dash + 1));
  if (!oldest.has_value() || !latest.has_value() || *oldest > *latest) {
    return InvalidArgument("'{}' is neither a version, such as 20, nor a range, such as 19-20",
                           text);
  }
  return VersionRange{.oldest = *oldest, .latest = *latest};
}

}  // namespace harmonaize
