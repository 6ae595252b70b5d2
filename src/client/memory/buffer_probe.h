#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Tells pointers to memory from those to nowhere before the caller's own thread touches them: the
/// daemon would find out and say so, this process would crash. Looks at the first and the last page
/// of a buffer, which is where a wrong pointer or a wrong count shows. It asks the kernel once for
/// a page and remembers it, so that small operations on the same pages cost two loads; a page that
/// the program unmaps after that still passes, and the access crashes as the program's own would.
/// Not thread safe.
class BufferProbe {
 public:
  /// False only when the kernel says that an access would fail.
  bool Readable(const void* buffer, uint64_t bytes) {
    return bytes == 0 || Knows(readable_, buffer, bytes) || Ask(buffer, bytes, false);
  }
  bool Writable(void* buffer, uint64_t bytes) {
    return bytes == 0 || Knows(writable_, buffer, bytes) || Ask(buffer, bytes, true);
  }

 private:
  /// Pages may be larger; then several numbers stand for one.
  static constexpr int kPageShift = 12;
  static constexpr int kPlacesShift = 8;
  /// Numbers of pages, each at the one place where it may be. Two tables, so that the two buffers
  /// of an operation do not take each other's place. Page 0 is never there.
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
