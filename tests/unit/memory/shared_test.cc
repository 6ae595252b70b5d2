#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "src/memory/memory_view.h"
#include "src/memory/shared_memory.h"
#include "tests/support/reserved_huge_pages.h"

namespace harmonaize {
namespace {

constexpr uint64_t kBytes = 3 * 4096 + 5;

FileDescriptor MakeMemfd(unsigned flags, uint64_t bytes, int seals) {
  FileDescriptor descriptor(memfd_create("test", flags));
  if (!descriptor.valid()) return descriptor;
  EXPECT_EQ(ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(descriptor.get(), F_ADD_SEALS, seals), 0);
  }
  return descriptor;
}

void ExpectRefused(int descriptor, uint64_t bytes, const std::string& reason) {
  Result<Mapping> mapping = MapAndSeal(descriptor, bytes);
  ASSERT_FALSE(mapping.ok());
  EXPECT_EQ(mapping.status().code(), Code::kInvalidArgument);
  EXPECT_NE(mapping.status().message().find(reason), std::string::npos)
      << mapping.status().ToString();
}

TEST(SharedMemory, BothSidesSeeTheSameBytes) {
  Result<SharedMemory> made = CreateSharedMemory("test", kBytes);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  // A part may be mapped, and outlives the descriptor.
  Result<Mapping> part =
      MapForeign(made->descriptor.get(), 10, HugePageFiles::kRefuse, Access::kReadAndWrite);
  ASSERT_TRUE(part.ok());
  Result<Mapping> other = MapAndSeal(made->descriptor.get(), kBytes);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  EXPECT_NE(made->mapping.data(), other->data());
  EXPECT_EQ(other->size(), kBytes);
  EXPECT_EQ(other->data()[kBytes - 1], std::byte{0});
  made->mapping.data()[kBytes - 1] = std::byte{42};
  EXPECT_EQ(other->data()[kBytes - 1], std::byte{42});
  made->descriptor.Reset();
  part->data()[9] = std::byte{7};
  EXPECT_EQ(other->data()[9], std::byte{7});
}

TEST(SharedMemory, CannotChangeItsSize) {
  Result<SharedMemory> made = CreateSharedMemory("test", kBytes);
  ASSERT_TRUE(made.ok());
  const int descriptor = made->descriptor.get();
  EXPECT_NE(ftruncate(descriptor, 1), 0);
  EXPECT_NE(ftruncate(descriptor, static_cast<off_t>(kBytes * 2)), 0);
  EXPECT_NE(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedMemory, RefusesImpossibleSizes) {
  EXPECT_EQ(CreateSharedMemory("test", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CreateSharedMemory("test", ~uint64_t{0}).status().code(), Code::kInvalidArgument);
  Result<SharedMemory> made = CreateSharedMemory("test", kBytes);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(MapAndSeal(made->descriptor.get(), 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(MapAndSeal(made->descriptor.get(), ~uint64_t{0}).status().code(),
            Code::kInvalidArgument);
}

TEST(SharedMemory, MappingMovesWithItsMemory) {
  Result<SharedMemory> made = CreateSharedMemory("test", kBytes);
  ASSERT_TRUE(made.ok());
  std::byte* const data = made->mapping.data();
  Mapping first = std::move(made->mapping);
  EXPECT_FALSE(made->mapping.valid());  // NOLINT(bugprone-use-after-move)
  Mapping second;
  second = std::move(first);
  EXPECT_EQ(second.data(), data);
  data[0] = std::byte{1};
  second.Reset();
  EXPECT_FALSE(second.valid());
  // What was unmapped is no longer there: msync says so without a fault.
  EXPECT_NE(msync(data, 4096, MS_ASYNC), 0);
}

TEST(MapAndSeal, RefusesWhatCanShrink) {
  FileDescriptor unsealed = MakeMemfd(MFD_ALLOW_SEALING, kBytes, 0);
  ExpectRefused(unsealed.get(), kBytes, "F_SEAL_SHRINK");
  FileDescriptor unsealable = MakeMemfd(0, kBytes, 0);
  ExpectRefused(unsealable.get(), kBytes, "F_SEAL_SHRINK");
  FileDescriptor grow_only = MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_GROW);
  ExpectRefused(grow_only.get(), kBytes, "F_SEAL_SHRINK");
}

TEST(MapAndSeal, AcceptsWhatCanOnlyGrow) {
  FileDescriptor descriptor = MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_SHRINK);
  EXPECT_TRUE(MapAndSeal(descriptor.get(), kBytes).ok());
}

TEST(MapAndSeal, RefusesWhatIsTooSmall) {
  FileDescriptor descriptor = MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_SHRINK);
  ExpectRefused(descriptor.get(), kBytes + 1, "holds 12293 bytes, 12294 were announced");
}

TEST(MapAndSeal, RefusesWhatCannotBeWritten) {
  FileDescriptor sealed = MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_SHRINK | F_SEAL_WRITE);
  ExpectRefused(sealed.get(), kBytes, "sealed against writing");
  FileDescriptor writable = MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_SHRINK);
  const std::string path = "/proc/self/fd/" + std::to_string(writable.get());
  FileDescriptor read_only(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_EQ(MapAndSeal(read_only.get(), kBytes).status().code(), Code::kSystemError);
}

/// A hole of one page, made in both ways that there are.
bool CanMakeHoles(int descriptor, std::byte* mapped) {
  return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 ||
         madvise(mapped, 4096, MADV_REMOVE) == 0;
}

TEST(MapAndSeal, NobodyMakesHolesOrMapsToWriteAnyMore) {
  Result<SharedMemory> owner = CreateSharedMemory("test", kBytes);
  ASSERT_TRUE(owner.ok());
  const int descriptor = owner->descriptor.get();
  EXPECT_TRUE(CanMakeHoles(descriptor, owner->mapping.data()));
  EXPECT_FALSE(IsSealedAgainstWriters(descriptor));
  const Result<Mapping> ours = MapAndSeal(descriptor, kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_TRUE(IsSealedAgainstWriters(descriptor));
  EXPECT_FALSE(CanMakeHoles(descriptor, owner->mapping.data()));
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
  EXPECT_EQ(pwrite(descriptor, "x", 1, 0), -1);
  ExpectRefused(descriptor, kBytes, "sealed against writing");
  // Who opens it anew is not let in either.
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const FileDescriptor anew(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(anew.valid());
  EXPECT_FALSE(CanMakeHoles(anew.get(), owner->mapping.data()));
  // Those who had it before go on.
  owner->mapping.data()[1] = std::byte{5};
  EXPECT_EQ(ours->data()[1], std::byte{5});
  ours->data()[2] = std::byte{6};
  const Result<Mapping> reader =
      MapForeign(descriptor, kBytes, HugePageFiles::kRefuse, Access::kRead);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ(reader->data()[1], std::byte{5});
  EXPECT_EQ(owner->mapping.data()[2], std::byte{6});
  EXPECT_NE(mprotect(reader->data(), 4096, PROT_READ | PROT_WRITE), 0);
}

TEST(MapAndSeal, NoHoleIsUnderWayAfterwards) {
  for (int round = 0; round < 20; ++round) {
    Result<SharedMemory> owner = CreateSharedMemory("test", 1 << 20);
    ASSERT_TRUE(owner.ok());
    std::atomic<bool> sealed{false};
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> holes{0};
    uint64_t too_late = 0;
    std::thread puncher([&] {
      while (!stop.load()) {
        const bool was_sealed = sealed.load();
        if (fallocate(owner->descriptor.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      1 << 20) != 0) {
          continue;
        }
        holes.fetch_add(1);
        too_late += was_sealed ? 1 : 0;
      }
    });
    while (holes.load() == 0) std::this_thread::yield();
    const Result<Mapping> ours = MapAndSeal(owner->descriptor.get(), 1 << 20);
    sealed = true;
    EXPECT_TRUE(ours.ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    stop = true;
    puncher.join();
    EXPECT_EQ(too_late, 0u);
  }
}

TEST(MapAndSeal, RefusesWhatCannotBeSealed) {
  FileDescriptor final =
      MakeMemfd(MFD_ALLOW_SEALING, kBytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  ExpectRefused(final.get(), kBytes, "cannot be sealed against holes");
}

TEST(MapAndSeal, RefusesHugePages) {
  FileDescriptor descriptor(memfd_create("test", MFD_HUGETLB | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) GTEST_SKIP() << "the kernel has no huge page files";
  ExpectRefused(descriptor.get(), 4096, "huge page");
}

TEST(MapAndSeal, TakesHugePagesWhereAskedTo) {
  testing::ReservedHugePages pool(2);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  const uint64_t page = pool.page_bytes();
  Result<SharedMemory> made = CreateHugePageMemory("test", page + 1);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->mapping.size(), 2 * page);
  const int descriptor = made->descriptor.get();
  ExpectRefused(descriptor, 2 * page, "huge page");
  Result<Mapping> other = MapAndSeal(descriptor, 2 * page, HugePageFiles::kAccept);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  made->mapping.data()[2 * page - 1] = std::byte{42};
  EXPECT_EQ(other->data()[2 * page - 1], std::byte{42});
  for (const uint64_t bytes : {page + 4096, page - 1, 3 * page}) {
    EXPECT_EQ(MapAndSeal(descriptor, bytes, HugePageFiles::kAccept).status().code(),
              Code::kInvalidArgument)
        << bytes;
  }
  EXPECT_NE(ftruncate(descriptor, 0), 0);
}

TEST(MapAndSeal, RefusesHugePagesThatThePoolCannotGive) {
  testing::ReservedHugePages pool(1);
  if (!pool.available()) GTEST_SKIP() << "this host has no huge pages to give";
  pool.Exhaust();
  EXPECT_EQ(CreateHugePageMemory("test", pool.page_bytes()).status().code(), Code::kSystemError);
  // A file that promises pages it has none of: the mapping fails, not an access later.
  FileDescriptor descriptor(memfd_create("test", MFD_HUGETLB | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(descriptor.get(), static_cast<off_t>(pool.page_bytes())), 0);
  ASSERT_EQ(fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(MapAndSeal(descriptor.get(), pool.page_bytes(), HugePageFiles::kAccept).status().code(),
            Code::kSystemError);
}

TEST(MapAndSeal, RefusesGiganticPages) {
  FileDescriptor descriptor(memfd_create("test", MFD_HUGETLB | MFD_HUGE_1GB | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) GTEST_SKIP() << "the kernel has no pages of 1 GiB";
  ASSERT_EQ(ftruncate(descriptor.get(), 1 << 30), 0);
  Result<Mapping> mapping = MapAndSeal(descriptor.get(), 1 << 30, HugePageFiles::kAccept);
  EXPECT_EQ(mapping.status().code(), Code::kInvalidArgument);
}

TEST(CreateHugePageMemory, RefusesImpossibleSizes) {
  if (HugePageBytes() == 0) GTEST_SKIP() << "the kernel has no huge page files";
  EXPECT_EQ(CreateHugePageMemory("test", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CreateHugePageMemory("test", ~uint64_t{0}).status().code(), Code::kInvalidArgument);
}

TEST(MapAndSeal, RefusesOtherFiles) {
  ExpectRefused(-1, 4096, "not a usable descriptor");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  ExpectRefused(reader.get(), 4096, "no memfd");
  char path[] = "/tmp/harmonaize-memory-test-XXXXXX";
  FileDescriptor file(mkstemp(path));
  ASSERT_TRUE(file.valid());
  unlink(path);
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  // No memfd, or, where /tmp is a tmpfs, one that cannot be sealed.
  EXPECT_EQ(MapAndSeal(file.get(), 4096).status().code(), Code::kInvalidArgument);
  FileDescriptor directory(open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) {
    EXPECT_EQ(MapAndSeal(directory.get(), 4096).status().code(), Code::kInvalidArgument);
  }
}

TEST(MemoryView, KnowsItsPlace) {
  std::byte memory[16];
  const MemoryView buffer{memory};
  EXPECT_EQ(buffer.At(4).address, memory + 4);
  EXPECT_TRUE(buffer.At(4).SamePlace(MemoryView{memory + 4}));
  EXPECT_FALSE(buffer.At(4).SamePlace(buffer));
  const MemoryView device{memory, MemoryKind::kDevice};
  EXPECT_EQ(device.At(4).kind, MemoryKind::kDevice);
}

}  // namespace
}  // namespace harmonaize
