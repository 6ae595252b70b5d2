#include "cli/ticket/ticket_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "src/base/write_whole.h"

namespace harmonaize {

Result<FileDescriptor> NewTicketFile(const std::string& path) {
  FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.valid()) return file;
  if (errno == EEXIST) {
    return InvalidUsage("{} is there already, and is left as it is: name a new file", path);
  }
  return ErrnoError(errno, fmt::format("cannot make {}", path));
}

Status WriteTicketFile(const std::string& path, const std::string& ticket) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor file, NewTicketFile(path));
  return WriteWhole(file.get(), ticket + "\n", path);
}

}  // namespace harmonaize
