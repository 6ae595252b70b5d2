#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Exit statuses of the program itself, with the values of timeout(1), env(1) and the shells.
/// Statuses below 125 can also be the ranks' own.
inline constexpr int kUsageStatus = 2;
inline constexpr int kTimeoutStatus = 124;
inline constexpr int kLauncherFailedStatus = 125;
inline constexpr int kCannotExecuteStatus = 126;
inline constexpr int kNotFoundStatus = 127;
/// 128 + n: ended by signal n.
inline constexpr int kSignalStatusBase = 128;

/// State shared by main and its subcommands.
struct CommandLine {
  bool dashes = false;            ///< Whether there was a "--".
  std::vector<std::string> tail;  ///< The words that followed it.
  int exit_status = 0;            ///< Set by the subcommand that ran.
};

/// Returns the words before the first "--"; those after it go into `command_line->tail`. They
/// belong to the program to run, so the option parser must not see them.
std::vector<std::string> SplitAtDashes(int argc, char** argv, CommandLine* command_line);

/// Returns "" unless the path is one at which a daemon serves HTTP, where no command can be; else
/// which one is meant, as CLI::Validator requires.
std::string CheckSocketName(const std::string& path);

/// Adds --socket to a subcommand that talks to the host's daemon.
void AddSocketOption(CLI::App* command, std::string* socket);

/// Replaces the user's text by the collective's name. Returns "" or the error in the text, as
/// CLI::Validator requires.
std::string CheckCollective(std::string& text);

/// Writes "harmonaize: MESSAGE" to standard error.
void Complain(const std::string& message);

/// Prints a subcommand's text, or complains that there is none. Returns the exit status.
int Print(const Result<std::string>& text);

/// Opens /dev/null at the numbers of closed standard streams, so that a launcher's pipes do not get
/// these numbers.
void OpenStandardStreams();

}  // namespace harmonaize
