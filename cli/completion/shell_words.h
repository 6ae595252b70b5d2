#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize {

/// A command line that bash has split at "=" and ":" too (COMP_WORDBREAKS), put together again.
struct ShellWords {
  std::vector<std::string> words;
  size_t cursor = 0;  ///< Place of the word that is to go on.
  /// How much of that word stands before the piece that bash replaces, in bytes.
  size_t kept = 0;
  std::vector<size_t> places;  ///< For each word the place of its first piece.
};

/// Puts the pieces together in which bash has split words. `cursor` is the place of the piece that
/// is to go on, and may be their number.
ShellWords JoinPieces(const std::vector<std::string>& pieces, size_t cursor);

/// Returns whether a shell takes the word as it is, and no program takes it for an option: it
/// begins with a letter or a digit, and holds nothing but these and `._-+@/:,`. Names that tenants
/// choose are hostile, and bash inserts candidates into the command line as they are.
bool IsPlainWord(std::string_view word);

}  // namespace harmonaize
