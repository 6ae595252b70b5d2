#pragma once

namespace harmonaize {

// Linking this file replaces operator new in the program.

/// Returns the number of calls of operator new so far.
int AllocationCount();

/// Makes all but the next `allocations` calls of operator new fail; negative: none fails, as at the
/// beginning.
void LimitAllocations(int allocations);
/// Makes one call of operator new fail after so many more; those after it succeed.
void FailOneAllocation(int after);
/// Returns whether that call has failed; false while it is still to come.
bool OneAllocationFailed();
/// Returns what is left of the limit.
int AllocationsLeft();

}  // namespace harmonaize
