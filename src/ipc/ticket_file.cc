#include "src/ipc/ticket_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "src/base/file_descriptor.h"
#include "src/base/small_file.h"

namespace harmonaize {
namespace {

/// Most bytes of a ticket's file: a ticket, and what an editor leaves at its end.
constexpr size_t kMostFileBytes = 4096;

}  // namespace

Result<std::string> ReadTicketFile(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  struct stat facts = {};
  if (fstat(file.get(), &facts) != 0) return ErrnoError(errno, "cannot look at the ticket's file");
  if (facts.st_uid != geteuid()) {
    return InvalidUsage("the ticket's file {} belongs to user {}, not to this process's user {}",
                        path, facts.st_uid, geteuid());
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return InvalidUsage(
        "the ticket's file {} has mode {:04o}, so others may read it: run chmod 600 {}, and if "
        "somebody may have read it, have a rank burn the tickets (hzBurnTickets)",
        path, facts.st_mode & 07777, path);
  }
  HZ_ASSIGN_OR_RETURN(std::string text, ReadToEnd(file, path, kMostFileBytes));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace harmonaize
