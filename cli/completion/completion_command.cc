#include "cli/completion/completion_command.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/completion/completer.h"
#include "cli/completion/daemon_names.h"
#include "cli/completion/scripts.h"
#include "cli/completion/shell_words.h"

namespace harmonaize {
namespace {

constexpr char kCompletionDescription[] =
    "Print what bash or zsh reads to complete commands, options, choices, and jobs.";

constexpr char kCompletionFooter[] =
    R"(An installation has put it where the shells of the system look for it. Where that is not so, read it
when a shell starts, as below; in zsh, after compinit.

The names of jobs, hosts, tokens, announcements and events that can be answered come from the daemon,
if it answers within a fifth of a second.
A job is offered by its id if its name has spaces or signs that the shell would understand.

Exit status: 0; 2 for another shell.

Examples:
  source <(harmonaize completion bash)
  source <(harmonaize completion zsh)
  harmonaize completion zsh > ~/.zsh/completions/_harmonaize)";

/// Longest time, in milliseconds, for a daemon to tell names: somebody waits at the keyboard.
constexpr int kNamesWithinMs = 200;

struct CompleteOptions {
  std::string shell = "bash";
  size_t cursor = 0;
};

/// Ends this process, with what it has printed, unless it has ended by then.
void EndWithin(int milliseconds) {
  ::signal(SIGALRM, [](int) { ::_exit(0); });
  const itimerval timer{.it_interval = {}, .it_value = {0, milliseconds * 1000}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Returns the socket that the words name; "" for none.
std::string SocketIn(const std::vector<std::string>& words) {
  constexpr std::string_view kWithValue = "--socket=";
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with(kWithValue)) return words[i].substr(kWithValue.size());
    if (words[i] == "--socket" && i + 1 < words.size()) return words[i + 1];
  }
  return "";
}

void PrintCompletion(const Completion& completion, const ShellWords& line) {
  switch (completion.kind) {
    case Completion::Kind::kFiles: std::puts("files"); return;
    case Completion::Kind::kProgram:
      std::printf("program %zu\n", line.places.at(completion.program_at));
      return;
    case Completion::Kind::kWords: break;
  }
  std::puts("words");
  for (const Continuation& candidate : completion.candidates) {
    if (candidate.word.size() < line.kept) continue;
    const std::string meaning = candidate.meaning.empty() ? "" : "\t" + candidate.meaning;
    std::printf("%s%s\n", candidate.word.substr(line.kept).c_str(), meaning.c_str());
  }
}

int RunComplete(const CLI::App& app, const CompleteOptions& options,
                const std::vector<std::string>& words) {
  if (options.cursor == 0 || options.cursor > words.size()) return kUsageStatus;
  ShellWords line;
  if (options.shell == "bash") {
    line = JoinPieces(words, options.cursor);
  } else {
    line.words = words;
    line.cursor = options.cursor;
    for (size_t i = 0; i <= words.size(); ++i) line.places.push_back(i);
  }
  EndWithin(kNamesWithinMs);
  const std::string socket = SocketIn(line.words);
  PrintCompletion(Complete(app, line.words, line.cursor,
                           [&](std::string_view kind) { return NamesOf(kind, socket); }),
                  line);
  return 0;
}

void AddComplete(CLI::App& app, CommandLine& command_line) {
  CLI::App* complete = app.add_subcommand("complete", "Complete a command line, for shells.");
  complete->group("");
  auto options = std::make_shared<CompleteOptions>();
  complete->add_option("--shell", options->shell)->check(CLI::IsMember({"bash", "zsh"}));
  complete->add_option("CURSOR", options->cursor)->required();
  complete->callback([&app, options, &command_line] {
    command_line.exit_status = RunComplete(app, *options, command_line.tail);
  });
}

}  // namespace

void AddCompletionCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* completion = app.add_subcommand("completion", kCompletionDescription);
  auto shell = std::make_shared<std::string>();
  completion->footer(kCompletionFooter);
  completion->add_option("SHELL", *shell, "Whose completion to print")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("WHICH");
  completion->callback([shell, &command_line] {
    command_line.exit_status =
        Print(std::string(*shell == "bash" ? BashCompletion() : ZshCompletion()));
  });
  AddComplete(app, command_line);
}

}  // namespace harmonaize
