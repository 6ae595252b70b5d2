#pragma once

#include <span>
#include <string_view>

namespace harmonaize {

/// An instruction set that the reductions were compiled for.
struct ReduceTarget {
  /// "avx3", "avx2", "sse4", or "baseline": what the compiler may use everywhere.
  std::string_view name;
  /// Whether this processor and its operating system have it.
  bool supported;
};

/// Returns all compiled targets, the best first; the last one is "baseline" and always supported.
/// Reduce uses the first supported one.
std::span<const ReduceTarget> ReduceTargets();

/// Makes Reduce and CopyToMany use the target of this name from now on, in all threads; an empty
/// name restores the automatic choice. Returns false, and changes nothing, when there is no such
/// target or the processor lacks it. For tests and benchmarks.
bool ForceReduceTarget(std::string_view name);

/// Returns the name of the target in use.
std::string_view CurrentReduceTarget();

}  // namespace harmonaize
