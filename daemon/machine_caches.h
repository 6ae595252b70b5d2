#pragma once

#include <cstddef>

namespace harmonaize::daemon {

/// The caches that decide how work is cut, from the kernel; the usual sizes where it does not say.
struct CacheSizes {
  size_t per_core_bytes = size_t{1} << 20;     ///< Second level.
  size_t last_level_bytes = size_t{32} << 20;  ///< Shared by all cores.
};
CacheSizes ReadCacheSizes();

}  // namespace harmonaize::daemon
