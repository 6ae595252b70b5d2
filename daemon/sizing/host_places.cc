#include "daemon/sizing/host_places.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>

namespace harmonaize::daemon {

// The driver's devices are nvidia0, nvidia1 and so on; beside them are nvidiactl, nvidia-uvm and
// the like.
static bool IsGpu(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  return std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](char one) { return one >= '0' && one <= '9'; });
}

int64_t PlacesOfHost(int64_t processors, const std::filesystem::path& devices) {
  int64_t gpus = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator one(devices, error), end; !error && one != end;
       one.increment(error)) {
    if (IsGpu(one->path().filename().string())) ++gpus;
  }
  return gpus > 0 ? gpus : processors;
}

}  // namespace harmonaize::daemon
