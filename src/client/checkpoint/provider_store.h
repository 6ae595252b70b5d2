#pragma once

#include <string_view>

namespace harmonaize {

/// Stands for the provider's store in place of a folder, whose path is absolute:
/// HZ_PROVIDER_STORE of include/harmonaize.h.
inline constexpr std::string_view kProviderStore = "provider:";

}  // namespace harmonaize
