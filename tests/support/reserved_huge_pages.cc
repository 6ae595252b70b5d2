#include "tests/support/reserved_huge_pages.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

namespace harmonaize::testing {
namespace {

constexpr const char* kPool = "/proc/sys/vm/nr_hugepages";

/// -1 where there is no such number.
long NumberIn(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  long number = -1;
  while (!key.empty() && file >> word && word != key) {
  }
  return file >> number ? number : -1;
}

long FreePages() {
  const long free = NumberIn("/proc/meminfo", "HugePages_Free:");
  const long promised = NumberIn("/proc/meminfo", "HugePages_Rsvd:");
  return free < 0 || promised < 0 ? 0 : free - promised;
}

}  // namespace

ReservedHugePages::ReservedHugePages(int pages) : page_bytes_(HugePageBytes()) {
  lock_ = FileDescriptor(
      open("/tmp/harmonaize-test-huge-pages.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0666));
  if (page_bytes_ == 0 || !lock_.valid() || flock(lock_.get(), LOCK_EX) != 0) return;
  if (FreePages() < pages) {
    const long now = NumberIn(kPool, "");
    if (now < 0 || !(std::ofstream(kPool) << now + pages << std::flush)) return;
    before_ = now;
  }
  available_ = FreePages() >= pages;
}

ReservedHugePages::~ReservedHugePages() {
  Release();
  if (before_ >= 0) std::ofstream(kPool) << before_ << std::flush;
}

void ReservedHugePages::Exhaust() {
  for (;;) {
    void* const page = mmap(nullptr, page_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (page == MAP_FAILED) return;
    taken_.emplace_back(static_cast<std::byte*>(page), page_bytes_);
  }
}

}  // namespace harmonaize::testing
