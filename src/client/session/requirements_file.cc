#include "src/client/session/requirements_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/base/settings.h"

namespace harmonaize {

Result<ProcessRequirements> ReadRequirementsFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file.valid() || fstat(file.get(), &status) != 0) {
    return ErrnoError(errno, fmt::format("cannot read the requirements in {}", path));
  }
  if (!S_ISREG(status.st_mode)) {
    return InvalidArgument("cannot read the requirements in {}: it is no file", path);
  }
  ProcessRequirements read;
  // A byte more than is allowed, so that a longer file is told of.
  read.text.resize(kMostRequirementsBytes + 1);
  size_t size = 0;
  while (size < read.text.size()) {
    const ssize_t got = ::read(file.get(), read.text.data() + size, read.text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, fmt::format("cannot read the requirements in {}", path));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  read.text.resize(size);
  HZ_ASSIGN_OR_RETURN(read.requirements, ParseRequirements(read.text, path));
  return read;
}

const Result<ProcessRequirements>& RequirementsOfProcess() {
  static const Result<ProcessRequirements> read = []() -> Result<ProcessRequirements> {
    const char* const path = Setting("HARMONAIZE_REQUIREMENTS");
    if (path == nullptr || *path == '\0') return ProcessRequirements{};
    return ReadRequirementsFile(path);
  }();
  return read;
}

}  // namespace harmonaize
