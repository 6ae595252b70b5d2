#include "cli/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include <CLI/CLI.hpp>

#include "src/base/collective.h"
#include "src/ipc/http_socket.h"
#include "src/ipc/operator_socket.h"

namespace harmonaize {
namespace {

// Ends of the names of sockets that a daemon makes beside a control socket of any name
// (HttpSocketPath, OperatorSocketPath).
constexpr std::string_view kHttpEnding = ".http";
constexpr std::string_view kOperatorEnding = ".operator";

}  // namespace

std::vector<std::string> SplitAtDashes(int argc, char** argv, CommandLine* command_line) {
  std::vector<std::string> head;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--" && !command_line->dashes) {
      command_line->dashes = true;
      continue;
    }
    (command_line->dashes ? command_line->tail : head).push_back(argument);
  }
  return head;
}

std::string CheckSocketName(const std::string& path) {
  constexpr std::string_view kUsualName = "harmonaized.sock";
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::string_view name = std::string_view(path).substr(folder.size());
  std::string_view meant;
  if (name == HttpSocketPath(std::string(kUsualName)) ||
      name == HttpSocketPath(OperatorSocketPath(std::string(kUsualName)))) {
    meant = kUsualName;
  } else if (name.ends_with(kHttpEnding)) {
    name.remove_suffix(kHttpEnding.size());
    if (name.ends_with(kOperatorEnding)) name.remove_suffix(kOperatorEnding.size());
    meant = name;
  }
  if (meant.empty()) return "";
  return fmt::format(
      "{} is where the daemon serves HTTP; commands take its control socket, {}{}, and find the "
      "others by that",
      path, folder, meant);
}

void AddSocketOption(CLI::App* command, std::string* socket) {
  command
      ->add_option("--socket", *socket,
                   "The daemon's socket (default: HARMONAIZE_SOCKET, else the system's, else the "
                   "user's own)")
      ->check(CLI::Validator(CheckSocketName, ""))
      ->type_name("SOCKET");
}

std::string CheckCollective(std::string& text) {
  const Result<Collective> collective = FindCollective(text);
  if (!collective.ok()) return collective.status().message();
  text = CollectiveName(*collective);
  return "";
}

void Complain(const std::string& message) {
  std::fprintf(stderr, "harmonaize: %s\n", message.c_str());
}

int Print(const Result<std::string>& text) {
  if (!text.ok()) {
    Complain(text.status().message());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

void OpenStandardStreams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace harmonaize
