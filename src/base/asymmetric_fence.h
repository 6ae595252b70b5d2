#pragma once

namespace harmonaize {

/// For protocols in which one side is fast and does without a fence, and the other is rarely there
/// and pays for both: when this returns, every thread that runs in a process which called
/// JoinAsymmetricFences has gone through a full fence since it was called. (membarrier(2); Dice,
/// Huang and Yang, "Asymmetric Dekker Synchronization", 2001.) Takes microseconds; milliseconds
/// where the kernel knows only the older way.
void HeavyFence();

/// To be called by a process before it relies on the HeavyFence of others. Not inherited by exec.
void JoinAsymmetricFences();

/// Whether the kernel offers it to this process. Without, its fast side must use real fences.
bool HasAsymmetricFences();

}  // namespace harmonaize
