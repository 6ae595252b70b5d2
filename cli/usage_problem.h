#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace harmonaize {

/// Returns what is wrong with a command line that could not be parsed, and how to go on, in lines
/// for people. An unknown command or option is named, with the nearest that exists. `words` are
/// those that were parsed.
std::string UsageProblem(const CLI::App& app, const std::vector<std::string>& words,
                         const CLI::ParseError& error);

/// Returns ", did you mean '--ranks'?" for an option that a command does not have; "" where none of
/// its options is near.
std::string DidYouMeanOption(const CLI::App& command, const std::string& word);

}  // namespace harmonaize
