#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Returns the library that puts Harmonaize under a program: in lib/ beside this program's bin/, as
/// in the build folder, or where the install rules put it. Errors: kUnavailable, with the places
/// tried.
Result<std::string> FindPreloadLibrary();

/// Returns the program that writes ranks' checkpoints, beside this one; "" when it is not there:
/// ranks that store nothing do without.
Result<std::string> FindWriterProgram();

/// Returns the daemon's program, beside this one. Errors: kUnavailable when it is not there.
Result<std::string> FindDaemonProgram();

}  // namespace harmonaize
