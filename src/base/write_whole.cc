#include "src/base/write_whole.h"

#include <unistd.h>

#include <cerrno>

namespace harmonaize {

Status WriteWhole(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(errno, "cannot write " + path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Status::Ok();
}

}  // namespace harmonaize
