#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// A hardware thread.
struct HostProcessor {
  int number = 0;  ///< Number in the kernel.
  int core = 0;    ///< Core, from 0 on; processors of one core share its units and private caches.
  /// Nearest memory, as an index into Host::nodes; -1 when the process may not use it.
  int node = -1;
};

/// One part of the memory (NUMA node), and the processors that are near it.
struct HostNode {
  int number = 0;  ///< Number in the kernel.
  uint64_t memory_bytes = 0;
  /// Processors by the kernel's numbers, ascending. Empty for memory without processors (expanders,
  /// some high bandwidth memory), and where the process may use none of them.
  std::vector<int> processors;
};

/// A host as far as this process may use it: processors and memory that its affinity, its control
/// group or the kernel keep from it are left out. A plain value; it does not follow later changes.
struct Host {
  std::vector<HostProcessor> processors;  ///< Ascending by number; at least one.
  std::vector<HostNode> nodes;            ///< Ascending by number; at least one.
  int cores = 1;
  /// Second-level cache of one core; 1 MiB where the host does not say.
  size_t core_cache_bytes = size_t{1} << 20;
  /// Size of one last-level cache; 32 MiB where the host does not say.
  size_t last_level_cache_bytes = size_t{32} << 20;
  /// Number of last-level caches: cores under different ones exchange data through memory.
  int last_level_caches = 1;
  /// Time of an access, by indices into `nodes`, in tenths of a local one (so 10 on the diagonal,
  /// as firmware states it). Empty where the host does not say.
  std::vector<std::vector<uint64_t>> node_distances;

  /// Returns the index of the node near a processor, by the kernel's number; -1 when there is none.
  int NodeOfProcessor(int number) const;
  /// Returns the index of the node with the kernel's number `number`; -1 when there is none.
  int IndexOfNode(int number) const;
  /// Returns the indices of the nodes that have processors.
  std::vector<int> NodesWithProcessors() const;
};

/// Returns this host, as hwloc finds it. Takes some milliseconds. Errors: kSystemError when hwloc
/// cannot find out.
Result<Host> DetectHost();

/// Returns what DetectHost found at the first call in this process. If it failed (the log says
/// why): the processors of the calling thread's affinity and one node. Thread: any.
const Host& ThisHost();

/// Returns the host that a synthetic description of hwloc's stands for, such as "NUMANode:2 L3:1
/// Core:4 PU:2". All of it may be used. Errors: kInvalidArgument for a description that hwloc does
/// not understand.
Result<Host> HostFromSynthetic(const std::string& description);

/// Returns the host that `lstopo FILE.xml` has written. All that was allowed there may be used.
/// Errors: kInvalidArgument for an invalid text.
Result<Host> HostFromXml(const std::string& xml);

}  // namespace harmonaize
