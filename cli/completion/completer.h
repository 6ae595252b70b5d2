#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace harmonaize {

/// One way to go on with a word, and what it means, for shells that show that.
struct Continuation {
  std::string word;
  std::string meaning = {};
};

/// How a word of a command line may go on.
struct Completion {
  enum class Kind {
    kWords,    ///< With one of `candidates`.
    kFiles,    ///< With the name of a file.
    kProgram,  ///< As the shell completes it: another program's command line has begun.
  };
  Kind kind = Kind::kWords;
  std::vector<Continuation> candidates = {};
  size_t program_at = 0;  ///< For kProgram: the place of the program's name.
};

/// Returns the names of a kind of values that exist now, such as those of jobs for "JOB". The list
/// is empty where no daemon answers.
using NameSource = std::function<std::vector<Continuation>(std::string_view kind)>;

/// Returns how the word at `cursor` may go on, from what the application itself says of its
/// subcommands, options and choices. `words` begins with the program's name; `cursor` may be its
/// size, for a word that has not begun. What a value is, is told by the type name of its option, or
/// by the name of its positional: "FILE", "FOLDER" and "SOCKET" are files, and all others are asked
/// of `names`. Hidden subcommands stay hidden. Requires: 1 <= cursor.
Completion Complete(const CLI::App& app, std::span<const std::string> words, size_t cursor,
                    const NameSource& names);

}  // namespace harmonaize
