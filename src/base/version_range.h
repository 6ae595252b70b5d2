#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// The versions of a protocol that a program speaks: all from `oldest` to `latest`.
struct VersionRange {
  uint32_t oldest = 0;
  uint32_t latest = 0;

  bool Has(uint32_t version) const { return oldest <= version && version <= latest; }
  bool operator==(const VersionRange&) const = default;
};

/// Returns the latest version that both have; nullopt if they have none in common.
std::optional<uint32_t> LatestOfBoth(const VersionRange& one, const VersionRange& other);

/// Returns "version 20" or "versions 19 to 21".
std::string TextOf(const VersionRange& versions);

/// Returns the versions of a text such as "20" or "19-21". Errors: kInvalidArgument, with the text,
/// for anything else, and for versions above 65535.
Result<VersionRange> ParseVersionRange(std::string_view text);

}  // namespace harmonaize
