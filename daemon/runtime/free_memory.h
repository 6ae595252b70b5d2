#pragma once

namespace harmonaize::daemon {

/// Gives the kernel back what was freed in all arenas of malloc, if it is much. malloc does so by
/// itself only at the end of an arena, where something that is still used may lie. Takes
/// milliseconds where it was much.
void ReturnFreeMemory();

/// Gives the kernel back the free end of the calling thread's arena. malloc looks at it only when a
/// large block is freed, and ReturnFreeMemory not at all. Takes a microsecond where there is none.
void ReturnEndOfOwnArena();

}  // namespace harmonaize::daemon
