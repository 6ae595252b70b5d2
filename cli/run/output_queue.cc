#include "cli/run/output_queue.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace harmonaize {

void OutputQueue::Append(std::string_view bytes) {
  if (!broken_) bytes_.append(bytes);
}

void OutputQueue::Write() {
  if (Empty()) return;
  // A pipe that polls writable has room for PIPE_BUF bytes, so this much cannot block.
  const size_t piece = std::min<size_t>(bytes_.size() - sent_, PIPE_BUF);
  const ssize_t written = ::write(fd_, bytes_.data() + sent_, piece);
  if (written < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    broken_ = true;
    bytes_.clear();
    sent_ = 0;
    return;
  }
  sent_ += static_cast<size_t>(written);
  if (Empty()) {
    bytes_.clear();
    sent_ = 0;
  } else if (sent_ > kFull) {
    bytes_.erase(0, sent_);
    sent_ = 0;
  }
}

}  // namespace harmonaize
