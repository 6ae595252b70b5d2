#include "cli/terminal.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>

namespace harmonaize {

bool TakesColours(int descriptor) {
  const char* const never = std::getenv("NO_COLOR");
  return ::isatty(descriptor) != 0 && (never == nullptr || *never == '\0');
}

bool ReaderHasGone(int descriptor) {
  pollfd looked{descriptor, 0, 0};
  return ::poll(&looked, 1, 0) == 1 && (looked.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace harmonaize
