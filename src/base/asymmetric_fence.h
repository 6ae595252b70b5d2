#pragma once

namespace harmonaize {

/// Fences all threads of other processes, for protocols in which one side is fast and omits its
/// fence, and the other is rarely there and pays for both. When this returns, every running thread
/// of a process that called JoinAsymmetricFences has gone through a full fence since the call
/// began. (membarrier(2); Dice, Huang and Yang, "Asymmetric Dekker Synchronization", 2001.) Takes
/// microseconds; milliseconds where the kernel knows only the older way.
void HeavyFence();

/// Lets the HeavyFence of other processes act on this one. To be called before the process relies
/// on it. Not inherited by exec.
void JoinAsymmetricFences();

/// Returns whether the kernel offers such fences to this process. Otherwise the fast side must use
/// real fences.
bool HasAsymmetricFences();

}  // namespace harmonaize
