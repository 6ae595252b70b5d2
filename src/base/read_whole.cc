#include "src/base/read_whole.h"

#include <unistd.h>

#include <cerrno>
#include <string>

namespace harmonaize {

Status ReadWholeAt(int fd, uint64_t at, std::span<std::byte> into, std::string_view path) {
  while (!into.empty()) {
    const ssize_t got = pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "cannot read " + std::string(path));
    if (got == 0) return InvalidArgument("{} ends before byte {}", path, at + into.size());
    at += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return Status::Ok();
}

}  // namespace harmonaize
