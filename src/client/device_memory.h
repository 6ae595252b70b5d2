#pragma once

namespace harmonaize {

/// Whether `address` is memory of a GPU, which the processor cannot read. Asks the CUDA driver when
/// the process has it loaded; loads nothing, so a process without CUDA pays a look at a pointer.
/// Thread safe.
bool IsDeviceMemory(const void* address);

/// Looks once more whether the process has loaded the CUDA driver. Called when a communicator is
/// made: a program that uses a GPU has set it up by then.
void LookForDeviceDriver();

}  // namespace harmonaize
