#pragma once

namespace harmonaize::daemon {

/// Gives memory that was freed in any arena of malloc back to the kernel, if it is more than a few
/// MiB. malloc does so by itself only at the end of an arena, where a block that is still used may
/// lie. Takes milliseconds if it gives back much.
void ReturnFreeMemory();

/// Gives the free end of the calling thread's arena back to the kernel. malloc looks at it only
/// when a large block is freed, and ReturnFreeMemory not at all. Takes a microsecond if there is
/// none.
void ReturnEndOfOwnArena();

}  // namespace harmonaize::daemon
