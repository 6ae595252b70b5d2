#pragma once

namespace harmonaize {

// What a shell reads to complete command lines of harmonaize. Both ask the program itself, by its
// hidden command `complete`, so that they fit every version of it.

/// For bash, with or without the package bash-completion.
const char* BashCompletion();
/// For zsh: as the file _harmonaize in a folder of $fpath, or read after compinit.
const char* ZshCompletion();

}  // namespace harmonaize
