#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::fabric {

/// Runs a program of the system to its end and returns what it wrote to its standard output. An
/// error has what it wrote to standard error. It dies with this process.
///
/// `inherited`, unless negative, is a descriptor that the program inherits without knowing: what
/// this process has locked through it stays locked until the program has ended, too.
Result<std::string> RunTool(const std::vector<std::string>& arguments, int inherited = -1);

}  // namespace harmonaize::fabric
