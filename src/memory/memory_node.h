#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace harmonaize {

/// On which part of the host's memory (NUMA node) pages lie. Straight to the kernel, without
/// libnuma: this is loaded into tenants. Nodes are named by the kernel's numbers. Thread safe.

/// How many nodes this process may have memory of; 1 where the kernel does not say.
int MemoryNodeCount();

/// The node near the processor that the calling thread runs on now; -1 where the kernel does not
/// say.
int NodeOfCallingThread();

/// Asks that pages of [first, first + bytes), whole pages, come from `node` as long as it has free
/// ones. Holds for pages that are not there yet. For a mapping of a memfd it holds whoever touches
/// them first, in whichever process: the kernel keeps it with the file.
/// Errors: kSystemError when the kernel has no such node or does not let this process choose.
Status PreferNode(void* first, size_t bytes, int node);

/// PreferNode for the node of the calling thread, on hosts with several; elsewhere nothing. Where
/// the kernel refuses (some container runtimes do), pages come from the node of whoever touches
/// them first.
void PreferNearMemory(void* first, size_t bytes);

/// The node of the page at `address`, which is brought into memory if it is not there; -1 where the
/// kernel does not say.
int NodeOfPage(const void* address);

}  // namespace harmonaize
