#include "cli/run/shell_line.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace harmonaize {
namespace {

/// Characters that mean themselves to every shell, besides letters and digits.
constexpr std::string_view kPlain = "_-./:=,@%+";

std::string Quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char letter) {
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    return is_letter || (letter >= '0' && letter <= '9') ||
           kPlain.find(letter) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string_view NameOf(std::string_view line) {
  return line.substr(0, line.find('='));
}

}  // namespace

std::string ShellLine(const RankProgram& program, const Environment& base) {
  const std::vector<std::string> before = base.Lines();
  const std::set<std::string> known(before.begin(), before.end());
  std::string line;
  for (const std::string& variable : before) {
    const std::string_view name = NameOf(variable);
    if (!program.environment.Has(name)) line += fmt::format(" -u {}", Quoted(std::string(name)));
  }
  for (const std::string& variable : program.environment.Lines()) {
    if (!known.contains(variable)) line += " " + Quoted(variable);
  }
  if (!line.empty()) line = "env" + line + " ";
  for (const std::string& word : program.arguments) line += Quoted(word) + " ";
  line.pop_back();
  return line;
}

}  // namespace harmonaize
