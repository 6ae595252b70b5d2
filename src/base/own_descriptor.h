#pragma once

#include <sys/types.h>

#include "src/base/file_descriptor.h"

/// \file
/// Descriptors inside a program that is not ours. Programs close descriptors that they did not
/// open, as closefrom(3) does where they go into the background, and the kernel gives the numbers
/// to the next files that are opened. Whoever used such a number then would write into a stranger's
/// file, or close it.

namespace harmonaize {

/// Which file a descriptor stands for. Files of the kernel's own that have no node, such as
/// eventfds, are all the same to it.
class FileIdentity {
 public:
  FileIdentity() = default;
  /// Of the file behind `fd`; of none where it is not open.
  static FileIdentity Of(int fd);
  /// Whether `fd` stands for that file; yes also where nothing could be learnt of it. One system
  /// call.
  bool IsOf(int fd) const;

 private:
  dev_t device_ = 0;
  ino_t node_ = 0;
  bool known_ = false;
};

/// A descriptor that is closed when it goes, unless its number stands for another file by then, as
/// far as FileIdentity can tell.
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
  /// Whether the number still stands for the file that it stood for. Between the answer and the
  /// next use another thread may close it: the answer is as good as the program is orderly.
  bool Intact() const { return descriptor_.valid() && identity_.IsOf(descriptor_.get()); }

 private:
  void Reset();

  FileDescriptor descriptor_;
  FileIdentity identity_;
};

}  // namespace harmonaize
