#pragma once

#include <atomic>

namespace harmonaize {

/// Of CUDA's driver API, which is not needed to build this.
using PointerGetAttribute = int (*)(void* data, int attribute, unsigned long long address);
extern std::atomic<PointerGetAttribute> device_pointer_get_attribute;

/// The driver's answer about `address`.
bool IsDeviceMemoryToDriver(PointerGetAttribute get, const void* address);

/// Whether `address` is memory of a GPU, which the processor cannot read. Asks the CUDA driver when
/// the process has it loaded; loads nothing, so a process without CUDA pays a look at a pointer.
/// Thread safe.
inline bool IsDeviceMemory(const void* address) {
  const PointerGetAttribute get = device_pointer_get_attribute.load(std::memory_order_relaxed);
  return get != nullptr && IsDeviceMemoryToDriver(get, address);
}

/// Looks once more whether the process has loaded the CUDA driver. Called when a communicator is
/// made: a program that uses a GPU has set it up by then.
void LookForDeviceDriver();

}  // namespace harmonaize
