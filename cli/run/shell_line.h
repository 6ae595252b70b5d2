#pragma once

#include <string>

#include "cli/run/environment.h"
#include "cli/run/rank_program.h"

namespace harmonaize {

/// Returns a line for a shell that starts the program from an environment like `base`: "env
/// NAME=value ... program arguments...", with all that differs from `base`.
std::string ShellLine(const RankProgram& program, const Environment& base);

}  // namespace harmonaize
