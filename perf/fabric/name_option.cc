#include "perf/fabric/name_option.h"

#include <CLI/CLI.hpp>

namespace harmonaize::fabric {

void AddNameOption(CLI::App* command, std::string* name) {
  command->add_option("--name", *name, "The laboratory, when several are up");
}

}  // namespace harmonaize::fabric
