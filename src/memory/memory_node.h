#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace harmonaize {

/// Places pages on parts of the host's memory (NUMA nodes). Calls the kernel directly, without
/// libnuma, because it is loaded into tenants. Nodes are named by the kernel's numbers. Thread:
/// any.

/// Returns how many nodes this process may have memory of; 1 where the kernel does not say.
int MemoryNodeCount();

/// Returns the node near the processor that the calling thread runs on now; -1 where the kernel
/// does not say.
int NodeOfCallingThread();

/// Asks that pages of [first, first + bytes), whole pages, come from `node` as long as it has free
/// ones. Applies to pages that do not exist yet. For a mapping of a memfd it applies whichever
/// process touches them first, because the kernel stores it with the file. Errors: kSystemError
/// when the kernel has no such node or does not let this process choose.
Status PreferNode(void* first, size_t bytes, int node);

/// Calls PreferNode for the node of the calling thread on hosts with several; does nothing
/// elsewhere. Where the kernel refuses (some container runtimes do), pages come from the node of
/// the thread that touches them first.
void PreferNearMemory(void* first, size_t bytes);

/// Returns the node of the page at `address`, which is brought into memory if it does not exist; -1
/// where the kernel does not say.
int NodeOfPage(const void* address);

}  // namespace harmonaize
