#include "cli/command_line.h"

#include <fcntl.h>
#include <unistd.h>

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

void OpenStandardStreams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace harmonaize
