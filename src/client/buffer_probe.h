#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Tells pointers to memory from those to nowhere before the caller's own thread touches them: the
/// daemon would find out and say so, this process would crash. Looks at the first and the last page
/// of a buffer, which is where a wrong pointer or a wrong count shows, and remembers the buffers
/// seen last, because programs use the same ones again and again. Not thread safe.
class BufferProbe {
 public:
  /// False only when the kernel says that an access would fail.
  bool Readable(const void* buffer, uint64_t bytes) { return Look(buffer, bytes, false); }
  bool Writable(void* buffer, uint64_t bytes) { return Look(buffer, bytes, true); }

 private:
  struct Seen {
    const void* buffer = nullptr;
    uint64_t bytes = 0;
    bool writable = false;
  };
  bool Look(const void* buffer, uint64_t bytes, bool write);

  std::array<Seen, 4> seen_ = {};
  size_t next_ = 0;
};

}  // namespace harmonaize
