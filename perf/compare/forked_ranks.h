#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace harmonaize::perf {

/// Bytes that all processes forked later share, zeroed. Lives as long as the process. NULL when
/// there is not enough memory.
void* SharedMemory(size_t bytes);

/// Runs `body(rank)` in `ranks` processes of its own and waits for them. True when all returned
/// true. A rank that fails or dies ends the others.
bool RunForked(int ranks, const std::function<bool(int)>& body);

/// Seconds of the monotonic clock.
double NowSeconds();

}  // namespace harmonaize::perf
