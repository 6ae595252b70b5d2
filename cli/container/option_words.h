#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize {

/// An option of another program's command line, and where its values stand.
struct GivenOption {
  std::string name;                 ///< "--env", "-e": as it was written, without a value.
  std::vector<std::string> values;  ///< None for one that takes none.
  size_t word = 0;                  ///< The word that the first value stands in.
  size_t offset = 0;                ///< Where in that word the value begins, in bytes.
};

/// Options of a program that take no value; any other takes one. So an option that is not known is
/// taken for the commoner sort.
struct OptionGrammar {
  std::span<const std::string_view> flags;  ///< "--rm"
  std::string_view letters;                 ///< "it", of -i and -t.
};

/// Options in a row, and the word behind them.
struct OptionWords {
  std::vector<GivenOption> options;
  size_t end = 0;  ///< The first word that is neither an option nor a value; the number of words if
                   ///< there is none. It may be "--".
};

/// Reads options from the word `begin` on, as getopt and Go's pflag understand them: "--name
/// value",
/// "--name=value", "-n value", "-nvalue", "-n=value" and, for letters without a value, "-abc".
OptionWords ReadOptionWords(const std::vector<std::string>& words, size_t begin,
                            const OptionGrammar& grammar);

/// Returns whether the name is one of these.
bool IsOneOf(std::string_view name, std::span<const std::string_view> names);

/// Returns a word of a command line as messages repeat it: in one line, and cut where it is long.
std::string ShownWord(std::string_view word);

/// Returns whether an option of one of these names is among them.
bool HasOption(const std::vector<GivenOption>& options, std::span<const std::string_view> names);

/// Returns the last value of the options of these names; "" where there is none.
std::string LastValue(const std::vector<GivenOption>& options,
                      std::span<const std::string_view> names);

}  // namespace harmonaize
