#pragma once

#include <cstddef>
#include <functional>

namespace harmonaize::perf {

/// Returns zeroed bytes that all processes forked later share. Pages take up memory once they are
/// written. Lives as long as the process. NULL when there is not enough address space.
void* SharedMemory(size_t bytes);

/// Runs `body(rank)` in `ranks` processes of its own and waits for them. Returns true when all
/// returned true. A rank that fails or dies ends the others.
bool RunForked(int ranks, const std::function<bool(int)>& body);

}  // namespace harmonaize::perf
