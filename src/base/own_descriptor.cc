#include "src/base/own_descriptor.h"

#include <sys/stat.h>

#include <utility>

namespace harmonaize {

FileIdentity FileIdentity::Of(int fd) {
  FileIdentity identity;
  struct stat file = {};
  if (fstat(fd, &file) != 0) return identity;
  identity.device_ = file.st_dev;
  identity.node_ = file.st_ino;
  identity.known_ = true;
  return identity;
}

bool FileIdentity::IsOf(int fd) const {
  if (!known_) return true;
  const FileIdentity now = Of(fd);
  return now.known_ && now.device_ == device_ && now.node_ == node_;
}

OwnDescriptor::OwnDescriptor(FileDescriptor descriptor)
    : descriptor_(std::move(descriptor)), identity_(FileIdentity::Of(descriptor_.get())) {}

OwnDescriptor& OwnDescriptor::operator=(OwnDescriptor&& other) noexcept {
  if (this != &other) {
    Reset();
    descriptor_ = std::move(other.descriptor_);
    identity_ = other.identity_;
  }
  return *this;
}

void OwnDescriptor::Reset() {
  if (descriptor_.valid() && !Intact()) descriptor_.Release();
  descriptor_.Reset();
}

}  // namespace harmonaize
