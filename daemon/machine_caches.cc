#include "daemon/machine_caches.h"

#include <unistd.h>

namespace harmonaize::daemon {

CacheSizes ReadCacheSizes() {
  CacheSizes sizes;
  const long second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const long third = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (second > 0) sizes.per_core_bytes = static_cast<size_t>(second);
  if (third > 0) sizes.last_level_bytes = static_cast<size_t>(third);
  return sizes;
}

}  // namespace harmonaize::daemon
