#include "cli/completion/completer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <CLI/CLI.hpp>

namespace harmonaize {
namespace {

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

/// Returns "--name", or "-n" for an option that has no long name; "" for a positional.
std::string NameOf(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) return "-" + option.get_snames().front();
  return "";
}

/// Returns the first line of a description: shells have one line for each candidate.
std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Returns the choices in the name that CLI11 gives to a type: "WHICH:{auto,private,none}".
std::vector<Continuation> ChoicesIn(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin);
  std::vector<Continuation> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  for (const std::string& choice :
       CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',')) {
    choices.push_back({choice});
  }
  return choices;
}

/// Follows a command line word by word, as far as completion needs that.
class Walk {
 public:
  explicit Walk(const CLI::App& app) : app_(&app) {}

  /// Takes the next word. Returns false if it begins another program's command line.
  bool Take(const std::string& word) {
    if (pending_ != nullptr) {
      pending_ = nullptr;
      return true;
    }
    if (word == "--" && !options_ended_) {
      options_ended_ = true;
      return true;
    }
    if (word.size() > 1 && word[0] == '-' && !options_ended_) {
      TakeOption(word);
      return true;
    }
    if (app_->get_prefix_command()) return false;
    if (const CLI::App* const command = Subcommand(word); command != nullptr) {
      app_ = command;
      used_.clear();
      positionals_ = 0;
      return true;
    }
    ++positionals_;
    return true;
  }

  const CLI::App& app() const { return *app_; }
  /// The option whose value comes next, or nullptr.
  const CLI::Option* pending() const { return pending_; }
  /// Whether "--" ended the options.
  bool options_ended() const { return options_ended_; }
  bool CanStillUse(const CLI::Option& option) const {
    return option.get_expected_max() > 1 ||
           std::find(used_.begin(), used_.end(), &option) == used_.end();
  }

  /// Returns the option of "--name", "--name=value", "-n" or "-nvalue"; nullptr for none.
  const CLI::Option* Find(const std::string& word) const {
    if (word.starts_with("--")) return app_->get_option_no_throw(word.substr(0, word.find('=')));
    return app_->get_option_no_throw(word.substr(0, 2));
  }

  /// Returns the positional that comes next, or nullptr.
  const CLI::Option* NextPositional() const {
    int before = 0;
    for (const CLI::Option* const option :
         app_->get_options([](const CLI::Option* one) { return one->get_positional(); })) {
      before += option->get_items_expected_max();
      if (positionals_ < before) return option;
    }
    return nullptr;
  }

 private:
  void TakeOption(const std::string& word) {
    const CLI::Option* const option = Find(word);
    if (option == nullptr) return;
    used_.push_back(option);
    const bool has_value =
        word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
    if (TakesValue(*option) && !has_value) pending_ = option;
  }

  const CLI::App* Subcommand(const std::string& name) const {
    const auto found = app_->get_subcommands(
        [&](const CLI::App* one) { return one->get_name() == name && !one->get_group().empty(); });
    return found.empty() ? nullptr : found.front();
  }

  const CLI::App* app_;
  const CLI::Option* pending_ = nullptr;
  std::vector<const CLI::Option*> used_;
  int positionals_ = 0;
  bool options_ended_ = false;
};

/// Keeps the candidates that begin with `begin`.
Completion Matching(std::vector<Continuation> candidates, const std::string& begin) {
  std::erase_if(candidates, [&](const Continuation& one) { return !one.word.starts_with(begin); });
  return {.candidates = std::move(candidates)};
}

/// Returns how the value of an option or a positional may go on. `before` stands before the value
/// in its word.
Completion Value(const CLI::Option& option, const std::string& begin, const std::string& before,
                 const NameSource& names) {
  const std::string type = option.get_type_name();
  const std::string name = option.get_name(true, false);
  const bool is_named_file = option.get_positional() && (name == "FILE" || name == "FOLDER");
  if (type.ends_with("FILE") || type == "SOCKET" || is_named_file) {
    return {.kind = Completion::Kind::kFiles};
  }
  std::vector<Continuation> candidates = ChoicesIn(type);
  if (candidates.empty()) {
    candidates = names(option.get_positional() ? option.get_name(true, false) : type);
  }
  // A list goes on behind its last comma.
  const size_t comma = begin.rfind(',');
  const std::string list = comma == std::string::npos ? "" : begin.substr(0, comma + 1);
  for (Continuation& candidate : candidates) candidate.word = list + candidate.word;
  Completion completion = Matching(std::move(candidates), begin);
  for (Continuation& candidate : completion.candidates) candidate.word = before + candidate.word;
  return completion;
}

std::vector<Continuation> Options(const Walk& walk) {
  std::vector<Continuation> candidates;
  for (const CLI::Option* const option : walk.app().get_options({})) {
    if (option->get_positional() || option->get_group().empty()) continue;
    if (walk.CanStillUse(*option)) {
      candidates.push_back({NameOf(*option), FirstLine(option->get_description())});
    }
  }
  return candidates;
}

std::vector<Continuation> Subcommands(const CLI::App& app) {
  std::vector<Continuation> candidates;
  for (const CLI::App* const command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    candidates.push_back({command->get_name(), FirstLine(command->get_description())});
  }
  return candidates;
}

Completion CompleteWord(const Walk& walk, const std::string& word, const NameSource& names) {
  if (walk.pending() != nullptr) return Value(*walk.pending(), word, "", names);
  if (word.starts_with('-') && !walk.options_ended()) {
    const size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) {
      return Matching(Options(walk), word);
    }
    const CLI::Option* const option = walk.Find(word);
    if (option == nullptr || !TakesValue(*option)) return {};
    return Value(*option, word.substr(equals + 1), word.substr(0, equals + 1), names);
  }
  Completion completion = Matching(Subcommands(walk.app()), word);
  if (const CLI::Option* const positional = walk.NextPositional(); positional != nullptr) {
    Completion values = Value(*positional, word, "", names);
    if (values.kind != Completion::Kind::kWords) return values;
    std::move(values.candidates.begin(), values.candidates.end(),
              std::back_inserter(completion.candidates));
  }
  // Where nothing else can come, the options can.
  if (completion.candidates.empty() && word.empty() && !walk.options_ended()) {
    return Matching(Options(walk), word);
  }
  return completion;
}

}  // namespace

Completion Complete(const CLI::App& app, std::span<const std::string> words, size_t cursor,
                    const NameSource& names) {
  Walk walk(app);
  for (size_t i = 1; i < std::min(cursor, words.size()); ++i) {
    if (!walk.Take(words[i])) return {.kind = Completion::Kind::kProgram, .program_at = i};
  }
  const std::string word = cursor < words.size() ? words[cursor] : std::string();
  const bool begins_program = walk.app().get_prefix_command() && walk.pending() == nullptr &&
                              (walk.options_ended() || !word.starts_with('-'));
  // An empty word after `run` may become either; the program is what is wanted most.
  if (begins_program) return {.kind = Completion::Kind::kProgram, .program_at = cursor};
  return CompleteWord(walk, word, names);
}

}  // namespace harmonaize
