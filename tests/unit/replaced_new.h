#pragma once

namespace harmonaize {

// Linking this file replaces operator new in the program.

/// Calls of operator new so far.
int AllocationCount();

/// All but the next `allocations` calls of operator new fail; negative: none does, as in the
/// beginning.
void LimitAllocations(int allocations);
/// After so many more calls of operator new one fails, and those after it do not.
void FailOneAllocation(int after);
/// Whether that one has failed, or would still.
bool OneAllocationFailed();
/// What is left of the limit.
int AllocationsLeft();

}  // namespace harmonaize
