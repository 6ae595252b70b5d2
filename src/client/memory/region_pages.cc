#include "src/client/memory/region_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "src/base/kernel_files.h"
#include "src/base/log.h"
#include "src/base/settings.h"
#include "src/memory/memory_node.h"

namespace harmonaize {
namespace {

HugePages ReadWanted() {
  const char* const value = Setting("HARMONAIZE_HUGE_PAGES");
  const std::string_view text = value == nullptr ? "" : value;
  if (text == "off") return HugePages::kOff;
  if (text == "required") return HugePages::kRequired;
  if (!text.empty() && text != "auto") {
    Log(LogLevel::kWarning, kLogEnvironment,
        "HARMONAIZE_HUGE_PAGES is '{}', which is none of auto, off and required: taken for auto",
        text);
  }
  return HugePages::kAuto;
}

/// Returns whether the host makes transparent huge pages of shared memory that asks for them.
bool HostHasTransparentPages() {
  const std::string setting = FirstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  for (const char* const yes : {"[always]", "[within_size]", "[advise]", "[force]"}) {
    if (setting.find(yes) != std::string::npos) return true;
  }
  return false;
}

Result<RegionPages> OnHugePages(uint64_t bytes, uint64_t page_bytes) {
  HZ_ASSIGN_OR_RETURN(SharedMemory memory, CreateHugePageMemory("harmonaize", bytes));
  return RegionPages{std::move(memory),
                     fmt::format("reserved huge pages of {} KiB", page_bytes / 1024)};
}

Result<RegionPages> OnOrdinaryPages(uint64_t bytes, bool transparent) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > UINT64_MAX - page) return InvalidArgument("cannot allocate {} bytes", bytes);
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      CreateSharedMemory("harmonaize", (bytes + page - 1) / page * page));
  const Mapping& mapping = memory.mapping;
  PreferNearMemory(mapping.data(), mapping.size());
  RegionPages pages{std::move(memory), fmt::format("pages of {} KiB", page / 1024)};
  if (transparent &&
      madvise(pages.memory.mapping.data(), pages.memory.mapping.size(), MADV_HUGEPAGE) == 0 &&
      HostHasTransparentPages()) {
    pages.description = "transparent huge pages as far as there are any";
  }
  return pages;
}

}  // namespace

HugePages WantedHugePages() {
  static const HugePages wanted = ReadWanted();
  return wanted;
}

bool DeservesHugePages(uint64_t bytes, uint64_t page_bytes) {
  if (page_bytes == 0 || bytes == 0) return false;
  const uint64_t over = bytes % page_bytes;
  const uint64_t waste = over == 0 ? 0 : page_bytes - over;
  return waste <= bytes / 8;
}

Result<RegionPages> AllocateRegionPages(uint64_t bytes, HugePages wanted) {
  if (wanted == HugePages::kOff) return OnOrdinaryPages(bytes, /*transparent=*/false);
  const uint64_t page_bytes = HugePageBytes();
  if (page_bytes == 0 && wanted == HugePages::kRequired) {
    return SystemError(
        "HARMONAIZE_HUGE_PAGES is 'required', and this host's kernel has no huge pages for shared "
        "memory");
  }
  if (!DeservesHugePages(bytes, page_bytes)) return OnOrdinaryPages(bytes, true);
  Result<RegionPages> huge = OnHugePages(bytes, page_bytes);
  if (huge.ok() || huge.status().code() == Code::kInvalidArgument) return huge;
  if (wanted == HugePages::kRequired) {
    return SystemError(
        "HARMONAIZE_HUGE_PAGES is 'required', and {} bytes of huge pages are not to be had ({}); "
        "the provider reserves them with vm.nr_hugepages, 'auto' goes without",
        bytes, huge.status().message());
  }
  Result<RegionPages> ordinary = OnOrdinaryPages(bytes, true);
  if (ordinary.ok()) {
    ordinary->description += fmt::format(" (no reserved ones: {})", huge.status().message());
  }
  return ordinary;
}

}  // namespace harmonaize
