#pragma once

#include <string>
#include <vector>

#include "cli/container/container_command.h"
#include "cli/container/injected.h"
#include "cli/container/option_words.h"

namespace harmonaize {

// bwrap(1) carries its options out one after the other: a later mount hides an earlier one. So what
// is handed in goes behind the user's own options. It passes its environment on.

/// Reads bwrap's options, from the word behind the program's name on.
OptionWords ReadBubblewrapWords(const std::vector<std::string>& words);

/// Returns whether the program that bwrap starts sees this host's file at the same path.
bool ShowsHostPath(const ContainerCommand& command, const std::string& path);

/// Returns the command with what is handed in.
RankProgram BubblewrapProgram(const ContainerCommand& command, const Injected& injected);

}  // namespace harmonaize
