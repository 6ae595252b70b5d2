#pragma once

namespace harmonaize {

/// Returns whether text for this descriptor may have colours. The descriptor has to be a terminal,
/// and NO_COLOR (https://no-color.org) must not be set.
bool TakesColours(int descriptor);

/// Returns whether the other end of a pipe or a socket was closed, so that nobody reads what is
/// written to this descriptor. For a file it is false.
bool ReaderHasGone(int descriptor);

}  // namespace harmonaize
