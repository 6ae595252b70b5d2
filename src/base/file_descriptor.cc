#include "src/base/file_descriptor.h"

#include <unistd.h>

namespace harmonaize {

void FileDescriptor::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace harmonaize
