#include "cli/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "src/base/collective.h"

namespace harmonaize {

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

void AddSocketOption(CLI::App* command, std::string* socket) {
  command
      ->add_option("--socket", *socket,
                   "The daemon's socket (default: HARMONAIZE_SOCKET, else the system's, else the "
                   "user's own)")
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
