#pragma once

#include <sys/types.h>

#include "src/base/file_descriptor.h"

/// \file
/// Descriptors inside a program that is not ours. Programs close descriptors that they did not
/// open, as closefrom(3) does when they go into the background, and the kernel reuses the numbers
/// for the next files that are opened. Using such a number then would write into a stranger's file,
/// or close it.

namespace harmonaize {

/// Identifies the file that a descriptor stands for. It cannot tell apart files of the kernel's own
/// that have no node, such as eventfds.
class FileIdentity {
 public:
  FileIdentity() = default;
  /// Returns the identity of the file behind `fd`; of no file if it is not open.
  static FileIdentity Of(int fd);
  /// Returns whether `fd` stands for that file; also true if nothing is known of the file. One
  /// system call.
  bool IsOf(int fd) const;

 private:
  dev_t device_ = 0;
  ino_t node_ = 0;
  bool known_ = false;
};

/// Closes its descriptor on destruction, unless its number stands for another file by then, as far
/// as FileIdentity can tell.
class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  explicit OwnDescriptor(FileDescriptor descriptor);
  ~OwnDescriptor() { Reset(); }
  OwnDescriptor(OwnDescriptor&& other) noexcept = default;
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept;
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  int get() const { return descriptor_.get(); }
  /// Forgets the descriptor without closing it.
  void Abandon() { descriptor_.Release(); }
  /// Returns whether the number still stands for its original file. Another thread may close it
  /// between the answer and the next use, so the answer is only as good as the program is orderly.
  bool Intact() const { return descriptor_.valid() && identity_.IsOf(descriptor_.get()); }

 private:
  void Reset();

  FileDescriptor descriptor_;
  FileIdentity identity_;
};

}  // namespace harmonaize
