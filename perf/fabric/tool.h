#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::fabric {

/// Runs a program of the system to its end and returns its standard output. An error has its
/// standard error. The program dies with this process.
///
/// `inherited`, unless negative, is a descriptor that the program inherits without knowing: a lock
/// that this process holds by it stays held until the program has ended, too.
Result<std::string> RunTool(const std::vector<std::string>& arguments, int inherited = -1);

}  // namespace harmonaize::fabric
