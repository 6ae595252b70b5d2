#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Bytes on their way to a descriptor that this process shares with others, such as standard
/// output. Its flags cannot be changed (they belong to the shell as well), so Write is called only
/// when poll reports POLLOUT, and then writes no more than certainly fits. Thread: one.
class OutputQueue {
 public:
  /// Waiting bytes from which on the caller should stop reading from its sources.
  static constexpr size_t kFull = 256 * 1024;

  /// Borrows `fd`.
  explicit OutputQueue(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void Append(std::string_view bytes);
  bool Empty() const { return sent_ == bytes_.size(); }
  bool Full() const { return bytes_.size() - sent_ >= kFull; }
  /// Returns whether the reader has gone away. Bytes appended after that are dropped.
  bool Broken() const { return broken_; }

  /// Writes one piece. Requires: poll has reported POLLOUT or POLLERR.
  void Write();

 private:
  int fd_;
  std::string bytes_;
  size_t sent_ = 0;
  bool broken_ = false;
};

}  // namespace harmonaize
