#pragma once

namespace harmonaize {

/// Returns whether a descriptor is a terminal whose user has not asked for text without colours
/// (NO_COLOR, https://no-color.org).
bool TakesColours(int descriptor);

/// Returns whether whoever reads what is written to a descriptor has gone. Nobody reads a file, and
/// nobody goes.
bool ReaderHasGone(int descriptor);

}  // namespace harmonaize
