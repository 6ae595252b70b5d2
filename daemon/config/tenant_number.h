#pragma once

#include <cstdint>
#include <string>

namespace harmonaize::daemon {

/// First number of tenants that are told apart by more than their user. No distribution gives users
/// numbers from here on.
inline constexpr uint32_t kFirstGivenNumber = uint32_t{1} << 31;

/// Returns a number derived from a tenant's name: the same on every host, and no user's number.
uint32_t NumberFromName(const std::string& name);

}  // namespace harmonaize::daemon
