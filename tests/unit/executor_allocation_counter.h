#pragma once

namespace harmonaize {

/// Calls of operator new by this program so far: linking this file replaces it.
int AllocationCount();

}  // namespace harmonaize
