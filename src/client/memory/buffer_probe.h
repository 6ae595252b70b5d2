#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Tells whether memory exists before the caller's own thread touches it: an access by the daemon
/// would be reported, one here would crash the process. It checks the first and the last page of a
/// buffer, where a wrong pointer or a wrong count shows. It asks the kernel once for a page and
/// remembers it, so small operations on the same pages cost two loads. If the program unmaps a page
/// after that, it still passes, and the access crashes as the program's own would. Thread: one.
class BufferProbe {
 public:
  /// Returns false only if the kernel says that an access would fail.
  bool Readable(const void* buffer, uint64_t bytes) {
    return bytes == 0 || Knows(readable_, buffer, bytes) || Ask(buffer, bytes, false);
  }
  bool Writable(void* buffer, uint64_t bytes) {
    return bytes == 0 || Knows(writable_, buffer, bytes) || Ask(buffer, bytes, true);
  }

 private:
  /// Bits of an address in a page. Pages may be larger; then several numbers stand for one page.
  static constexpr int kPageShift = 12;
  /// Binary logarithm of the number of places in a table.
  static constexpr int kPlacesShift = 8;
  /// Numbers of pages, each at the one place where it may be. There are two tables, so that the two
  /// buffers of an operation do not evict each other. Page 0 is never there.
  using Pages = std::array<uintptr_t, size_t{1} << kPlacesShift>;

  static size_t PlaceOf(uintptr_t page) {
    // Fibonacci hashing: buffers often lie at the same offset of large alignments.
    return static_cast<size_t>((uint64_t{page} * 0x9e3779b97f4a7c15u) >> (64 - kPlacesShift));
  }
  static bool Knows(const Pages& pages, const void* buffer, uint64_t bytes) {
    const auto start = reinterpret_cast<uintptr_t>(buffer);
    const uintptr_t first = start >> kPageShift;
    const uintptr_t last = (start + bytes - 1) >> kPageShift;
    return first != 0 && last >= first && pages[PlaceOf(first)] == first &&
           (last == first || pages[PlaceOf(last)] == last);
  }
  bool Ask(const void* buffer, uint64_t bytes, bool write);

  Pages readable_ = {};
  Pages writable_ = {};
};

}  // namespace harmonaize
