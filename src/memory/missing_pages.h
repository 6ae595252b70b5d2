#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace harmonaize {

/// Pages that a mapping of somebody else's memory lacks: nobody has touched them yet, or their
/// owner has made a hole. Linux makes such a page at the first access and charges it to the control
/// group of whoever made the access, so a tenant could fill the daemon's memory with its own.
///
/// The kernel is told by userfaultfd(2) to make none instead. It raises SIGBUS, for which a
/// FaultGuard stands ready, and system calls end with EFAULT (TouchPages). Thread safe.
class MissingPages {
 public:
  /// Opens the kernel's interface for this process. Once, before any mapping is given to Refuse.
  /// Errors: kSystemError where the kernel is older than Linux 5.11 or a sandbox forbids it.
  static Status Install();
  /// Makes accesses to missing pages of a mapping fail, until it is unmapped or replaced. Does
  /// nothing where Install has failed. Errors: kSystemError.
  static Status Refuse(std::byte* first, size_t bytes);
};

/// Reads a byte of each page of [first, first + bytes): a FaultGuard then gets to know of pages
/// that a system call did not find.
void TouchPages(const std::byte* first, size_t bytes);

}  // namespace harmonaize
