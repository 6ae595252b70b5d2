#include "cli/completion/shell_words.h"

#include <algorithm>
#include <utility>

namespace harmonaize {
namespace {

bool IsBreak(const std::string& piece) {
  return piece == "=" || piece == ":";
}

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

ShellWords JoinPieces(const std::vector<std::string>& pieces, size_t cursor) {
  ShellWords joined;
  for (size_t i = 0; i < pieces.size(); ++i) {
    // The program's name stands alone.
    const bool goes_on = i > 1 && (IsBreak(pieces[i]) || IsBreak(pieces[i - 1]));
    if (!goes_on) {
      joined.words.emplace_back();
      joined.places.push_back(i);
    }
    std::string& word = joined.words.back();
    if (i == cursor) {
      joined.cursor = joined.words.size() - 1;
      // Bash replaces the piece, or adds one behind a break.
      joined.kept = word.size() + (IsBreak(pieces[i]) ? pieces[i].size() : 0);
    }
    word += pieces[i];
    if (i == cursor) return joined;
  }
  joined.cursor = joined.words.size();
  joined.places.push_back(pieces.size());
  return joined;
}

bool IsPlainWord(std::string_view word) {
  return !word.empty() && IsLetterOrDigit(word.front()) &&
         std::all_of(word.begin(), word.end(), [](char c) {
           return IsLetterOrDigit(c) || std::string_view("._-+@/:,").find(c) != std::string::npos;
         });
}

}  // namespace harmonaize
