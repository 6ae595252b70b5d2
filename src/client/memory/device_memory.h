#pragma once

#include <atomic>

namespace harmonaize {

/// A function of CUDA's driver API, which is not needed to build this.
using PointerGetAttribute = int (*)(void* data, int attribute, unsigned long long address);
extern std::atomic<PointerGetAttribute> device_pointer_get_attribute;

/// Returns the driver's answer about `address`.
bool IsDeviceMemoryToDriver(PointerGetAttribute get, const void* address);

/// Returns whether `address` is memory of a GPU, which the processor cannot read. Asks the CUDA
/// driver if the process has it loaded. It loads nothing, so a process without CUDA pays a look at
/// a pointer. Thread: any.
inline bool IsDeviceMemory(const void* address) {
  const PointerGetAttribute get = device_pointer_get_attribute.load(std::memory_order_relaxed);
  return get != nullptr && IsDeviceMemoryToDriver(get, address);
}

/// Checks again whether the process has loaded the CUDA driver. Called when a communicator is made:
/// a program that uses a GPU has set it up by then.
void LookForDeviceDriver();

}  // namespace harmonaize
