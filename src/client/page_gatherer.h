#pragma once

#include <array>
#include <cstdint>

namespace harmonaize {

/// Has the kernel put private buffers that operations use again and again into huge pages
/// (MADV_COLLAPSE, Linux 6.1). The daemon reaches private memory with process_vm_readv, half of
/// whose time on small pages goes into finding and holding one page after another; on huge ones it
/// moves several times as many bytes a second.
///
/// Nothing but the time of access changes for the program: the operation touches every page of the
/// buffer anyway, and what lies outside of the buffer is left alone. The kernel spares memory that
/// was excluded (MADV_NOHUGEPAGE, PR_SET_THP_DISABLE), and this class does nothing where the host's
/// administrator has said `never` in /sys/kernel/mm/transparent_hugepage/enabled, or the user
/// HARMONAIZE_HUGE_PAGES=off.
///
/// One thread's.
class PageGatherer {
 public:
  PageGatherer();

  /// An operation uses `bytes` at `address`, all of them. Gathering takes about a millisecond for a
  /// mebibyte, once; so it is left until a buffer has been used a few times, and a huge buffer is
  /// done in parts, one with each use.
  void NoteUse(const void* address, uint64_t bytes);

  /// How many bytes the kernel was asked to gather.
  uint64_t gathered_bytes() const { return gathered_bytes_; }

  static constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
  static constexpr uint32_t kUsesBefore = 8;
  static constexpr uint64_t kBytesAtOnce = uint64_t{32} << 20;

 private:
  /// A buffer that was used of late. Two that share a place take turns and are never gathered.
  struct Use {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint32_t uses = 0;
    uint64_t gathered_to = 0;
  };

  void Gather(Use* use);

  /// By the host, and by HARMONAIZE_HUGE_PAGES.
  const bool allowed_;
  std::array<Use, 128> recent_;
  uint64_t gathered_bytes_ = 0;
};

}  // namespace harmonaize
