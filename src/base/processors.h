#pragma once

#include <vector>

namespace harmonaize {

/// Returns the numbers of the processors that this process may run on, ascending; {0} where the
/// kernel does not say.
std::vector<int> UsableProcessors();

}  // namespace harmonaize
