#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Bytes on their way to a descriptor that this process shares with others, such as standard
/// output. Its flags cannot be changed (they belong to the shell as well), so Write is called only
/// when poll says POLLOUT and then takes no more than fits for certain. Not thread safe.
class OutputQueue {
 public:
  /// Beyond this many waiting bytes the caller should stop reading from its sources.
  static constexpr size_t kFull = 256 * 1024;

  /// `fd` is borrowed.
  explicit OutputQueue(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  void Append(std::string_view bytes);
  bool Empty() const { return sent_ == bytes_.size(); }
  bool Full() const { return bytes_.size() - sent_ >= kFull; }
  /// Whether the reader has gone away. What is appended after that is dropped.
  bool Broken() const { return broken_; }

  /// Writes one piece; to be called after POLLOUT, or POLLERR.
  void Write();

 private:
  int fd_;
  std::string bytes_;
  size_t sent_ = 0;
  bool broken_ = false;
};

}  // namespace harmonaize
