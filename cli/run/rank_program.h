#pragma once

#include <string>
#include <vector>

#include "cli/run/environment.h"

namespace harmonaize {

/// The command line of a rank, and the environment in which it starts.
struct RankProgram {
  std::vector<std::string> arguments;
  Environment environment;
};

}  // namespace harmonaize
