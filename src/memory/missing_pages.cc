#include "src/memory/missing_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "src/base/file_descriptor.h"
#include "src/memory/populate_pages.h"

namespace harmonaize {
namespace {

/// Stays open for as long as the process lives: the kernel forgets all ranges when it is closed.
int interface = -1;

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

Status MissingPages::Install() {
  // Only faults of this process's own instructions are handled, which the kernel permits to
  // everybody.
  FileDescriptor descriptor(
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!descriptor.valid()) return ErrnoError(errno, "userfaultfd");
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MISSING_HUGETLBFS;
  if (ioctl(descriptor.get(), UFFDIO_API, &api) != 0) return ErrnoError(errno, "UFFDIO_API");
  interface = descriptor.Release();
  return Status::Ok();
}

Status MissingPages::Refuse(std::byte* first, size_t bytes) {
  if (interface < 0) return Status::Ok();
  uffdio_register range{};
  range.range.start = reinterpret_cast<uintptr_t>(first);
  range.range.len = (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (ioctl(interface, UFFDIO_REGISTER, &range) != 0) return ErrnoError(errno, "UFFDIO_REGISTER");
  return Status::Ok();
}

void MissingPages::BringIn(std::byte* first, size_t bytes) {
  // Bytes that are brought in at once: other threads of the process wait so long to map memory.
  constexpr size_t kAtOnce = size_t{2} << 20;
  if (interface < 0) return;
  for (size_t offset = 0; offset < bytes; offset += kAtOnce) {
    if (!PopulatePages(first + offset, std::min(kAtOnce, bytes - offset), PageUse::kWrite)) return;
  }
}

void TouchPages(const std::byte* first, size_t bytes) {
  if (bytes == 0) return;
  const auto* const view = reinterpret_cast<const volatile std::byte*>(first);
  const size_t page = PageBytes();
  const size_t to_next = page - reinterpret_cast<uintptr_t>(first) % page;
  static_cast<void>(view[0]);
  for (size_t offset = to_next; offset < bytes; offset += page) static_cast<void>(view[offset]);
}

}  // namespace harmonaize
