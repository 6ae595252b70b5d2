#include "src/base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace harmonaize {

Result<FileDescriptor> OpenRegularFile(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return ErrnoError(errno, "cannot open " + path);
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return ErrnoError(errno, "cannot look at " + path);
  if (!S_ISREG(about.st_mode)) return InvalidUsage("{} is no regular file", path);
  return file;
}

Result<std::string> ReadToEnd(const FileDescriptor& file, const std::string& path,
                              size_t most_bytes) {
  std::string text(most_bytes + 1, '\0');
  size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t taken = read(file.get(), text.data() + bytes, text.size() - bytes);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return ErrnoError(errno, "cannot read " + path);
    if (taken == 0) break;
    bytes += static_cast<size_t>(taken);
  }
  if (bytes > most_bytes) return InvalidUsage("{} has more than {} bytes", path, most_bytes);
  text.resize(bytes);
  return text;
}

Result<std::string> ReadSmallFile(const std::string& path, size_t most_bytes) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  return ReadToEnd(file, path, most_bytes);
}

}  // namespace harmonaize
