#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace harmonaize {

/// Refuses pages that a mapping of another process's memory lacks: they were never touched, or
/// their owner has made a hole. Linux makes such a page at the first access and charges it to the
/// control group of the accessing process, so a tenant could fill the daemon's memory with its own.
///
/// userfaultfd(2) tells the kernel to make none instead. It then raises SIGBUS, for which a
/// FaultGuard stands ready, and system calls end with EFAULT (TouchPages). Thread: any.
class MissingPages {
 public:
  /// Opens the kernel's interface for this process. To be called once, before any mapping is passed
  /// to Refuse. Errors: kSystemError where the kernel is older than Linux 5.11 or a sandbox forbids
  /// it.
  static Status Install();
  /// Makes accesses to missing pages of a mapping fail, until it is unmapped or replaced. Does
  /// nothing where Install has failed. Errors: kSystemError.
  static Status Refuse(std::byte* first, size_t bytes);
  /// Brings the pages of a mapping that was passed to Refuse into this process's page table, up to
  /// the first one that is missing, so that no access has to wait for that. Does nothing where
  /// Install has failed.
  static void BringIn(std::byte* first, size_t bytes);
};

/// Reads a byte of each page of [first, first + bytes), so that a FaultGuard learns of pages that a
/// system call did not find.
void TouchPages(const std::byte* first, size_t bytes);

}  // namespace harmonaize
