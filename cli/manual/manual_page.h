#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// The headings of a manual page, and what they are filled with.
struct ManualFrame {
  std::string name;                        ///< "harmonaize-run"
  int section = 1;                         ///< 1 for commands, 8 for what operators start.
  std::string version = {};                ///< "harmonaize 0.1.0"
  std::vector<std::string> see_also = {};  ///< "harmonaize(1)"
};

/// Makes a manual page, for man(1), of the text that a program prints for --help: a description, a
/// line "Usage: ...", its positionals, options and subcommands as CLI11 lists them, and a text. In
/// that, a paragraph that begins with "Exit status:" and whatever follows "Examples:" get sections
/// of their own, and indented lines stay as they are. Errors: kInvalidArgument for a text without
/// such a line.
Result<std::string> ManualPage(const ManualFrame& frame, std::string_view help);

}  // namespace harmonaize
