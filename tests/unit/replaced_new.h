#pragma once

namespace harmonaize {

// Linking this file replaces operator new in the program.

/// Calls of operator new so far.
int AllocationCount();

/// All but the next `allocations` calls of operator new fail; negative: none does, as in the
/// beginning.
void LimitAllocations(int allocations);
/// What is left of the limit.
int AllocationsLeft();

}  // namespace harmonaize
