#include "src/memory/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <limits>

namespace harmonaize {
namespace {

Result<Mapping> MapShared(int descriptor, uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return ErrnoError(errno, fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  return Mapping(static_cast<std::byte*>(address), bytes);
}

bool IsPossibleSize(uint64_t bytes) {
  return bytes > 0 && bytes <= static_cast<uint64_t>(std::numeric_limits<off_t>::max());
}

Status CheckFileSystem(int descriptor) {
  struct statfs file_system;
  if (fstatfs(descriptor, &file_system) != 0) {
    return InvalidArgument("shared memory: not a usable descriptor ({})",
                           ErrnoError(errno, "fstatfs").message());
  }
  const auto magic = static_cast<uint64_t>(file_system.f_type);
  if (magic == HUGETLBFS_MAGIC) {
    return InvalidArgument(
        "shared memory: huge page files are refused, their faults can fail; use memfd_create "
        "without MFD_HUGETLB");
  }
  if (magic != TMPFS_MAGIC) {
    return InvalidArgument(
        "shared memory: the descriptor is no memfd (file system type 0x{:x}, tmpfs is 0x{:x})",
        magic, TMPFS_MAGIC);
  }
  return Status::Ok();
}

Status CheckSeals(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) {
    return InvalidArgument("shared memory: the descriptor has no seals ({})",
                           ErrnoError(errno, "F_GET_SEALS").message());
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument("shared memory: not sealed against shrinking (F_SEAL_SHRINK)");
  }
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0) {
    return InvalidArgument("shared memory: sealed against writing");
  }
  return Status::Ok();
}

Status CheckSize(int descriptor, uint64_t expected_size) {
  struct stat file;
  if (fstat(descriptor, &file) != 0) return ErrnoError(errno, "shared memory: fstat");
  if (!S_ISREG(file.st_mode)) return InvalidArgument("shared memory: not a file");
  if (static_cast<uint64_t>(file.st_size) < expected_size) {
    return InvalidArgument("shared memory: holds {} bytes, {} were announced", file.st_size,
                           expected_size);
  }
  return Status::Ok();
}

}  // namespace

void Mapping::Reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Result<SharedMemory> CreateSharedMemory(const char* name, uint64_t bytes) {
  if (!IsPossibleSize(bytes)) {
    return InvalidArgument("shared memory: {} bytes is no possible size", bytes);
  }
  FileDescriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) return ErrnoError(errno, "shared memory: memfd_create");
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    return ErrnoError(errno, fmt::format("shared memory: cannot make it {} bytes long", bytes));
  }
  if (fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoError(errno, "shared memory: F_ADD_SEALS");
  }
  Result<Mapping> mapping = MapShared(descriptor.get(), bytes);
  if (!mapping.ok()) return mapping.status();
  return SharedMemory{std::move(descriptor), std::move(*mapping)};
}

Result<Mapping> MapForeign(int descriptor, uint64_t expected_size) {
  if (!IsPossibleSize(expected_size)) {
    return InvalidArgument("shared memory: {} bytes is no possible size", expected_size);
  }
  HZ_RETURN_IF_ERROR(CheckFileSystem(descriptor));
  // The seal first, then the size: in the other order it could shrink in between.
  HZ_RETURN_IF_ERROR(CheckSeals(descriptor));
  HZ_RETURN_IF_ERROR(CheckSize(descriptor, expected_size));
  return MapShared(descriptor, expected_size);
}

}  // namespace harmonaize
