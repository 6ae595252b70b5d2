#include "src/memory/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "src/memory/memory_node.h"
#include "src/memory/populate_pages.h"

namespace harmonaize {
namespace {

Result<Mapping> MapShared(int descriptor, uint64_t bytes, Access access) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return ErrnoError(errno, fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  return Mapping(static_cast<std::byte*>(address), bytes);
}

constexpr uint64_t kLargestFile = std::numeric_limits<off_t>::max();

/// Largest huge page that is accepted: clearing one takes some milliseconds, during which a thread
/// of ours does nothing else.
constexpr uint64_t kLargestForeignPage = uint64_t{32} << 20;

bool IsPossibleSize(uint64_t bytes) {
  return bytes > 0 && bytes <= kLargestFile;
}

Status CheckHugePages(uint64_t page_bytes, uint64_t expected_size) {
  if (page_bytes == 0 || page_bytes > kLargestForeignPage) {
    return InvalidArgument("shared memory: pages of {} bytes, possible are up to {}", page_bytes,
                           kLargestForeignPage);
  }
  if (expected_size % page_bytes != 0) {
    return InvalidArgument("shared memory: {} bytes are no whole number of huge pages of {} bytes",
                           expected_size, page_bytes);
  }
  return Status::Ok();
}

Status CheckFileSystem(int descriptor, uint64_t expected_size, HugePageFiles huge_pages) {
  struct statfs file_system;
  if (fstatfs(descriptor, &file_system) != 0) {
    return InvalidArgument("shared memory: not a usable descriptor ({})",
                           ErrnoError(errno, "fstatfs").message());
  }
  const auto magic = static_cast<uint64_t>(file_system.f_type);
  if (magic == HUGETLBFS_MAGIC && huge_pages == HugePageFiles::kAccept) {
    return CheckHugePages(static_cast<uint64_t>(file_system.f_bsize), expected_size);
  }
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

/// Seals against writers: with F_SEAL_WRITE or F_SEAL_FUTURE_WRITE the kernel permits no further
/// writable mapping.
constexpr int kSealsOfWriters = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

/// Returns no seals where the descriptor's file cannot have any.
int SealsOf(int descriptor) {
  return std::max(fcntl(descriptor, F_GET_SEALS), 0);
}

Status CheckSeals(int descriptor, Access access) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) {
    return InvalidArgument("shared memory: the descriptor has no seals ({})",
                           ErrnoError(errno, "F_GET_SEALS").message());
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return InvalidArgument("shared memory: not sealed against shrinking (F_SEAL_SHRINK)");
  }
  if (access == Access::kReadAndWrite && (seals & kSealsOfWriters) != 0) {
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

Result<SharedMemory> Create(const char* name, uint64_t bytes, unsigned flags) {
  if (!IsPossibleSize(bytes)) {
    return InvalidArgument("shared memory: {} bytes is no possible size", bytes);
  }
  FileDescriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!descriptor.valid()) return ErrnoError(errno, "shared memory: memfd_create");
  if (ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    return ErrnoError(errno, fmt::format("shared memory: cannot make it {} bytes long", bytes));
  }
  if (fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return ErrnoError(errno, "shared memory: F_ADD_SEALS");
  }
  HZ_ASSIGN_OR_RETURN(Mapping mapping, MapShared(descriptor.get(), bytes, Access::kReadAndWrite));
  return SharedMemory{std::move(descriptor), std::move(mapping)};
}

}  // namespace

void Mapping::Reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

uint64_t HugePageBytes() {
  const FileDescriptor descriptor(memfd_create("harmonaize-probe", MFD_CLOEXEC | MFD_HUGETLB));
  struct statfs file_system;
  if (!descriptor.valid() || fstatfs(descriptor.get(), &file_system) != 0) return 0;
  return static_cast<uint64_t>(file_system.f_bsize);
}

Result<SharedMemory> CreateSharedMemory(const char* name, uint64_t bytes) {
  return Create(name, bytes, 0);
}

Result<SharedMemory> CreateHugePageMemory(const char* name, uint64_t bytes) {
  const uint64_t page = HugePageBytes();
  if (page == 0) return SystemError("shared memory: the kernel has no huge pages for it");
  if (!IsPossibleSize(bytes) || bytes > kLargestFile - page) {
    return InvalidArgument("shared memory: {} bytes is no possible size", bytes);
  }
  Result<SharedMemory> memory = Create(name, (bytes + page - 1) / page * page, MFD_HUGETLB);
  if (!memory.ok()) return memory;
  const Mapping& mapping = memory->mapping;
  PreferNearMemory(mapping.data(), mapping.size());
  // The mapping has reserved the pages of the pool, but a control group may still refuse them: with
  // an error now, or with SIGBUS later.
  if (!PopulatePages(mapping.data(), mapping.size(), PageUse::kWrite)) {
    return ErrnoError(
        errno, fmt::format("shared memory: cannot get {} bytes of huge pages", mapping.size()));
  }
  return memory;
}

Result<Mapping> MapForeign(int descriptor, uint64_t expected_size, HugePageFiles huge_pages,
                           Access access) {
  if (!IsPossibleSize(expected_size)) {
    return InvalidArgument("shared memory: {} bytes is no possible size", expected_size);
  }
  HZ_RETURN_IF_ERROR(CheckFileSystem(descriptor, expected_size, huge_pages));
  // The seal is checked first, then the size: in the other order the memory could shrink in
  // between.
  HZ_RETURN_IF_ERROR(CheckSeals(descriptor, access));
  HZ_RETURN_IF_ERROR(CheckSize(descriptor, expected_size));
  return MapShared(descriptor, expected_size, access);
}

Result<Mapping> MapAndSeal(int descriptor, uint64_t expected_size, HugePageFiles huge_pages) {
  // Checked before mapping, which may take long, because such memory could be offered again and
  // again.
  const int seals = SealsOf(descriptor);
  if ((seals & F_SEAL_SHRINK) != 0 && (seals & F_SEAL_SEAL) != 0) {
    return InvalidArgument("shared memory: cannot be sealed against holes (it has F_SEAL_SEAL)");
  }
  HZ_ASSIGN_OR_RETURN(Mapping mapping,
                      MapForeign(descriptor, expected_size, huge_pages, Access::kReadAndWrite));
  // Takes the file's lock that a thread holds while it makes a hole, so no hole is under way
  // afterwards.
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) {
    return InvalidArgument("shared memory: cannot be sealed against holes ({})",
                           ErrnoError(errno, "F_SEAL_FUTURE_WRITE").message());
  }
  return mapping;
}

bool IsSealedAgainstWriters(int descriptor) {
  return (SealsOf(descriptor) & kSealsOfWriters) != 0;
}

}  // namespace harmonaize
