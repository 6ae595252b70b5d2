// What is handed to the daemon as memory, and what becomes of it afterwards.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>

#include "tests/hostile/attacks.h"
#include "tests/support/lingering_socket.h"

namespace harmonaize::testing {
namespace {

constexpr uint64_t kPage = 4096;

/// What is punched, sealed and resized, in bytes: a reduction of so much takes some milliseconds.
constexpr uint64_t kUsedBytes = uint64_t{8} << 20;

/// What nobody has touched, in bytes. The daemon touches it first, so all attackers' together must
/// fit into the memory of a small machine.
constexpr uint64_t kUntouchedBytes = uint64_t{64} << 20;

constexpr int kShrinkSeal = F_SEAL_SHRINK;

FileDescriptor MakeMemory(uint64_t bytes, unsigned flags, int seals) {
  FileDescriptor memory(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!memory.valid()) return memory;
  static_cast<void>(!ftruncate(memory.get(), static_cast<off_t>(bytes)));
  if (seals != 0) fcntl(memory.get(), F_ADD_SEALS, seals);
  return memory;
}

bool MakeHole(int descriptor, off_t offset, off_t bytes) {
  return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes) == 0;
}

FileDescriptor MakeTemporary(const char* folder) {
  std::string name = std::string(folder) + "/hostile-XXXXXX";
  FileDescriptor file(mkstemp(name.data()));
  unlink(name.c_str());
  static_cast<void>(!ftruncate(file.get(), 1 << 20));
  return file;
}

FileDescriptor MakeSocket() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return {};
  const FileDescriptor other(ends[1]);
  return FileDescriptor(ends[0]);
}

FileDescriptor MakePipe() {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const FileDescriptor other(ends[1]);
  return FileDescriptor(ends[0]);
}

FileDescriptor OpenPath(const char* path, int flags) {
  return FileDescriptor(open(path, flags | O_CLOEXEC));
}

/// Files of all kinds, none of which the daemon may take for memory.
const std::vector<std::function<FileDescriptor()>>& OddFiles() {
  static const std::vector<std::function<FileDescriptor()>> kFiles = {
      MakePipe,
      MakeSocket,
      [] { return MakeMemory(1 << 20, 0, 0); },
      [] { return MakeMemory(1 << 20, 0, F_SEAL_GROW); },
      [] { return MakeMemory(1 << 20, 0, kShrinkSeal | F_SEAL_WRITE); },
      [] { return MakeMemory(1 << 20, 0, kShrinkSeal | F_SEAL_FUTURE_WRITE); },
      [] { return MakeMemory(1 << 20, 0, kShrinkSeal | F_SEAL_SEAL); },
      [] { return MakeMemory(0, 0, kShrinkSeal); },
      [] { return MakeMemory(1 << 19, 0, kShrinkSeal); },
      [] { return MakeTemporary("/tmp"); },
      [] { return MakeTemporary("/dev/shm"); },
      [] { return OpenPath("/dev/zero", O_RDWR); },
      [] { return OpenPath("/dev/null", O_RDWR); },
      [] { return OpenPath("/dev/full", O_RDWR); },
      [] { return OpenPath("/tmp", O_RDONLY | O_DIRECTORY); },
      [] { return OpenPath("/proc", O_RDONLY | O_DIRECTORY); },
      [] { return OpenPath("/proc/self/mem", O_RDWR); },
      [] { return OpenPath("/proc/self/maps", O_RDONLY); },
      [] { return OpenPath("/etc/passwd", O_RDONLY); },
      [] { return OpenPath("/bin/sh", O_PATH); },
      [] { return FileDescriptor(eventfd(0, EFD_CLOEXEC)); },
      [] { return FileDescriptor(epoll_create1(EPOLL_CLOEXEC)); },
      [] { return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); },
      [] {
        return FileDescriptor(static_cast<int>(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY)));
      },
#ifdef SYS_memfd_secret
      [] {
        FileDescriptor secret(static_cast<int>(syscall(SYS_memfd_secret, 0)));
        static_cast<void>(!ftruncate(secret.get(), 1 << 20));
        return secret;
      },
#endif
  };
  return kFiles;
}

/// A gang whose region is the file's first `bytes`.
std::optional<Gang> FormOn(Attacker& attacker, int descriptor, uint64_t bytes) {
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return std::nullopt;
  const Result<uint32_t> region = session->TryRegister(descriptor, bytes);
  if (!attacker.Count(region.status())) return std::nullopt;
  return Gang::FormIn(attacker, std::move(*session), 2, *region, bytes);
}

/// Has the gang work on all of its memory for as long as there is time.
void WorkOn(Attacker& attacker, Gang& gang) {
  while (attacker.TimeLeft() && !attacker.WasCutOff(gang.session())) {
    gang.PostAll(Collective::kAllReduce, UINT64_MAX);
    attacker.CountBlows();
    gang.AwaitAll(attacker, 0);
  }
}

}  // namespace

void RegisterOddFiles(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    for (int i = 0; i < 20 && attacker.TimeLeft(); ++i) {
      const size_t kind = attacker.DrawBelow(OddFiles().size());
      const FileDescriptor file = OddFiles()[kind]();
      if (!file.valid()) continue;
      if (attacker.Count(session->TryRegister(file.get(), 1 << 20).status())) {
        attacker.Report(fmt::format("the daemon took file {} of OddFiles for memory", kind));
      }
    }
  }
}

// Files of all kinds as the memory of a session, none, and several.
void GreetWithOddFiles(Attacker& attacker) {
  const FileDescriptor used = MakeMemory(sizeof(SessionSegment), 0, kShrinkSeal);
  while (attacker.TimeLeft()) {
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) continue;
    std::vector<FileDescriptor> files;
    const size_t count = attacker.OneIn(4) ? attacker.DrawBelow(4) : 1;
    for (size_t i = 0; i < count; ++i) {
      files.push_back(OddFiles()[attacker.DrawBelow(OddFiles().size())]());
    }
    std::vector<int> descriptors;
    for (const FileDescriptor& file : files) {
      if (file.valid()) descriptors.push_back(file.get());
    }
    // The same memory for two sessions; the first of them may have it.
    const bool twice = attacker.OneIn(8);
    if (twice) descriptors = {used.get()};
    static_cast<void>(socket->Send(Encode(HelloRequest::kType, HelloRequest{}), descriptors));
    const Result<ControlMessage> answer = socket->Receive(1000);
    attacker.CountBlows();
    if (twice || !answer.ok()) continue;
    const Result<MessageHeader> header = DecodeHeader(answer->bytes);
    if (header.ok() && DecodeFailure(*header, answer->bytes).ok()) {
      attacker.Report("the daemon took one of OddFiles for the memory of a session");
    }
  }
}

void RegisterOddSizes(Attacker& attacker) {
  constexpr std::array<uint64_t, 10> kSizes = {
      0,         1,          kPage - 1,         kPage + 1,      uint64_t{1} << 40,
      INT64_MAX, UINT64_MAX, uint64_t{1} << 63, UINT64_MAX - 1, uint64_t{1} << 47};
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    for (int i = 0; i < 20 && attacker.TimeLeft(); ++i) {
      // 256 GiB that cost nothing, unless somebody touches them.
      const FileDescriptor memory = MakeMemory(uint64_t{1} << 38, 0, kShrinkSeal);
      const FileDescriptor huge = MakeMemory(uint64_t{1} << 30, MFD_HUGETLB, kShrinkSeal);
      const int descriptor = huge.valid() && attacker.OneIn(3) ? huge.get() : memory.get();
      const uint64_t bytes =
          attacker.OneIn(3) ? attacker.Draw() >> attacker.DrawBelow(60) : attacker.DrawOf(kSizes);
      const Result<uint32_t> region = session->TryRegister(descriptor, bytes);
      attacker.Count(region.status());
    }
  }
}

void PunchHoles(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    // On huge pages where the host has some to give.
    const unsigned flags = attacker.OneIn(3) ? MFD_HUGETLB : 0;
    const FileDescriptor memory = MakeMemory(kUsedBytes, flags, kShrinkSeal);
    // From before the daemon has it: afterwards the kernel makes no more.
    const Helper puncher([&] {
      while (true) {
        const auto offset = static_cast<off_t>(attacker.DrawBelow(kUsedBytes / kPage) * kPage);
        MakeHole(memory.get(), offset, static_cast<off_t>(kPage * (1 + attacker.DrawBelow(64))));
      }
    });
    std::optional<Gang> gang = FormOn(attacker, memory.get(), kUsedBytes);
    if (!gang.has_value()) continue;
    if (MakeHole(memory.get(), 0, kPage)) attacker.Report("a hole in memory of the daemon's");
    const int segment = gang->session().segment_descriptor();
    if (MakeHole(segment, 0, kPage)) attacker.Report("a hole in the memory of a session");
    WorkOn(attacker, *gang);
  }
}

void ResizeAndSeal(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const FileDescriptor memory = MakeMemory(kUsedBytes, 0, kShrinkSeal);
    std::optional<Gang> gang = FormOn(attacker, memory.get(), kUsedBytes);
    if (!gang.has_value()) continue;
    const Helper resizer([&] {
      constexpr std::array<int, 4> kSeals = {F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE,
                                             F_SEAL_SEAL};
      while (true) {
        static_cast<void>(
            !ftruncate(memory.get(), static_cast<off_t>(attacker.DrawBelow(2 * kUsedBytes))));
        fallocate(memory.get(), FALLOC_FL_COLLAPSE_RANGE, 0, kPage);
        fallocate(memory.get(), FALLOC_FL_ZERO_RANGE, 0, static_cast<off_t>(kUsedBytes));
        if (attacker.OneIn(1000)) fcntl(memory.get(), F_ADD_SEALS, attacker.DrawOf(kSeals));
      }
    });
    WorkOn(attacker, *gang);
  }
}

void LeaveMemoryUntouched(Attacker& attacker) {
  const FileDescriptor memory = MakeMemory(kUntouchedBytes, 0, kShrinkSeal);
  std::optional<Gang> gang = FormOn(attacker, memory.get(), kUntouchedBytes);
  if (gang.has_value()) WorkOn(attacker, *gang);
}

// A fault in the daemon's own mapping is the kernel's to mend; the owner's handler must not be
// asked, nor its silence be waited for.
void GuardMemoryByFaults(Attacker& attacker) {
  const FileDescriptor memory = MakeMemory(kUsedBytes, 0, kShrinkSeal);
  const FileDescriptor faults(
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  void* const own = mmap(nullptr, kUsedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (faults.valid() && own != MAP_FAILED) {
    uffdio_api api{};
    api.api = UFFD_API;
    ioctl(faults.get(), UFFDIO_API, &api);
    uffdio_register range{};
    range.range = {reinterpret_cast<uint64_t>(own), kUsedBytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    ioctl(faults.get(), UFFDIO_REGISTER, &range);
  }
  std::optional<Gang> gang = FormOn(attacker, memory.get(), kUsedBytes);
  if (gang.has_value()) WorkOn(attacker, *gang);
  if (own != MAP_FAILED) munmap(own, kUsedBytes);
}

void RemoveRegionsInUse(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 2, kUsedBytes);
    if (!gang.has_value()) continue;
    // Rank 1 comes late, so that the region is in use when it is removed.
    gang->session().Post(gang->Next(0, Collective::kAllReduce, UINT64_MAX, DataType::kFloat32));
    UnregisterRegionRequest request;
    request.region = gang->region();
    for (int i = 0; i < 5; ++i) attacker.Ask(gang->session(), request);
    gang->session().Post(gang->Next(1, Collective::kAllReduce, UINT64_MAX, DataType::kFloat32));
    attacker.Ask(gang->session(), request);
    if (attacker.OneIn(2)) gang->AwaitAll(attacker, 1);
    attacker.Ask(gang->session(), request);
  }
}

void SendLingeringDescriptors(Attacker& attacker) {
  std::vector<FileDescriptor> kept;
  std::optional<HostileSession> session = attacker.Greet();
  if (!session.has_value()) return;
  RegisterRegionRequest request;
  request.bytes = kPage;
  const auto registration = Encode(RegisterRegionRequest::kType, request);
  // The attackers' own thread of the daemon's stands still from the first one on, so a few will do.
  for (int i = 0; i < 3 && attacker.TimeLeft(); ++i) {
    if (SendLingering(session->socket(), registration, &kept)) attacker.CountBlows();
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) continue;
    if (SendLingering(*socket, Encode(StatusRequest::kType, StatusRequest{}), &kept)) {
      attacker.CountBlows();
    }
  }
  usleep(50'000);
}

}  // namespace harmonaize::testing
