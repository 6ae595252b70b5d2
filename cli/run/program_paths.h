#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// The library that puts Harmonaize under a program: in lib/ beside this program's bin/, as in the
/// build folder, or where the install rules put it. kUnavailable, with the places tried, when it is
/// nowhere.
Result<std::string> FindPreloadLibrary();

/// The daemon's program, beside this one. kUnavailable when it is not there.
Result<std::string> FindDaemonProgram();

}  // namespace harmonaize
