#pragma once

#include <cstddef>
#include <functional>

namespace harmonaize::perf {

/// Bytes that all processes forked later share, zeroed. Pages take up memory once they are written.
/// Lives as long as the process. NULL when there is not enough address space.
void* SharedMemory(size_t bytes);

/// Runs `body(rank)` in `ranks` processes of its own and waits for them. True when all returned
/// true. A rank that fails or dies ends the others.
bool RunForked(int ranks, const std::function<bool(int)>& body);

}  // namespace harmonaize::perf
