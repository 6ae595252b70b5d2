#include "cli/usage_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include <CLI/CLI.hpp>

#include "src/base/clean_text.h"
#include "src/base/names.h"

namespace harmonaize {
namespace {

/// Longest part of a word that a message repeats, in bytes: a word may be a whole file.
constexpr size_t kMostShownWordBytes = 80;

/// The command that words have led to.
struct Reached {
  const CLI::App* command = nullptr;
  std::string path = {};          ///< As it is typed: "harmonaize token create".
  std::string unknown_word = {};  ///< What stands where a further command is wanted; "": nothing.
};

std::vector<std::string_view> CommandsOf(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* const command : app.get_subcommands({})) {
    // Commands without a group are for shells alone.
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Reached Follow(const CLI::App& app, const std::vector<std::string>& words) {
  Reached reached{.command = &app, .path = app.get_name()};
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = reached.command->get_subcommands({});
    if (commands.empty()) return reached;
    if (word.starts_with('-')) continue;
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* one) { return one->get_name() == word; });
    if (found == commands.end()) {
      reached.unknown_word = word;
      return reached;
    }
    reached.command = *found;
    reached.path += " " + word;
  }
  return reached;
}

/// Says that a command wants another one behind it, and which there are.
std::string CommandProblem(const Reached& reached) {
  const std::vector<std::string_view> names = CommandsOf(*reached.command);
  if (!reached.unknown_word.empty()) {
    return fmt::format("there is no command '{}'{}",
                       CleanText(reached.unknown_word, kMostShownWordBytes),
                       DidYouMean(reached.unknown_word, names));
  }
  return fmt::format("{} wants a command: {}", reached.path, fmt::join(names, ", "));
}

/// Says which word nobody wanted.
std::string ExtraProblem(const CLI::App& app, const Reached& reached) {
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  const std::string word = extras.empty() ? "" : extras.front();
  const std::string shown = CleanText(word, kMostShownWordBytes);
  if (!word.starts_with('-')) return fmt::format("the word '{}' is one too many", shown);
  return fmt::format("{} has no option '{}'{}", reached.path, shown,
                     DidYouMeanOption(*reached.command, word));
}

}  // namespace

std::string DidYouMeanOption(const CLI::App& command, const std::string& word) {
  const std::vector<std::string> options = OptionsOf(command);
  const std::vector<std::string_view> names(options.begin(), options.end());
  return DidYouMean(std::string_view(word).substr(0, word.find('=')), names);
}

std::string UsageProblem(const CLI::App& app, const std::vector<std::string>& words,
                         const CLI::ParseError& error) {
  const Reached reached = Follow(app, words);
  const bool wants_command = !reached.command->get_subcommands({}).empty();
  std::string problem = error.what();
  if (wants_command && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    problem = CommandProblem(reached);
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    problem = ExtraProblem(app, reached);
  }
  return fmt::format("{}\n'{} --help' says what there is", problem, reached.path);
}

}  // namespace harmonaize
