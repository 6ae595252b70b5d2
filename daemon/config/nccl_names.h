#pragma once

#include <span>
#include <string_view>

namespace harmonaize::daemon {

/// Returns the names of NCCL's settings that a provider may set, in the order of the alphabet.
std::span<const std::string_view> KnownNcclNames();
/// Returns the names that NCCL has, and that are not for providers (WhyNotForProviders).
std::span<const std::string_view> ExcludedNcclNames();

}  // namespace harmonaize::daemon
