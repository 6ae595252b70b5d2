#include "src/client/memory/device_memory.h"

#include <dlfcn.h>

namespace harmonaize {
namespace {

constexpr int kMemoryTypeAttribute = 2;
constexpr unsigned kDeviceMemoryType = 2;
constexpr int kIsManagedAttribute = 8;

}  // namespace

std::atomic<PointerGetAttribute> device_pointer_get_attribute{nullptr};

void LookForDeviceDriver() {
  if (device_pointer_get_attribute.load(std::memory_order_relaxed) != nullptr) return;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  // The handle is kept: the driver must stay loaded while its function may be called.
  device_pointer_get_attribute.store(
      reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute")),
      std::memory_order_relaxed);
}

bool IsDeviceMemoryToDriver(PointerGetAttribute get, const void* address) {
  const auto number = reinterpret_cast<unsigned long long>(address);
  unsigned type = 0;
  // The driver reports an error for memory that CUDA has never seen, which is host memory.
  if (get(&type, kMemoryTypeAttribute, number) != 0 || type != kDeviceMemoryType) return false;
  unsigned managed = 0;
  return get(&managed, kIsManagedAttribute, number) != 0 || managed == 0;
}

}  // namespace harmonaize
