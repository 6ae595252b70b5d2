#pragma once

namespace harmonaize {

// The scripts that shells read to complete command lines of harmonaize. A script calls the
// program's hidden command `complete`, so it fits every version of the program.

/// For bash, with or without the package bash-completion.
const char* BashCompletion();
/// For zsh: as the file _harmonaize in a folder of $fpath, or read after compinit.
const char* ZshCompletion();

}  // namespace harmonaize
