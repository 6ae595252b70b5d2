#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace harmonaize {

/// A line of text in shared memory: one writer (the daemon), any number of readers (the tenant).
/// A reader never sees half of a line, and neither side can make the other wait: this is a sequence
/// lock (Lameter 2005) whose reader gives up after a few tries.
template <size_t kBytes>
class SharedText {
 public:
  static_assert(kBytes % 8 == 0);
  static constexpr size_t kCapacity = kBytes;

  /// Stores `text`, cut to the capacity. Writer only.
  void Set(std::string_view text);
  /// Returns the text, or "" when a writer kept changing it (or a tenant overwrote its own copy).
  std::string Get() const;
  /// Returns a number that grows with every Set, and so tells readers of new text.
  uint32_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint32_t> version_;  // odd while the writer is in Set
  std::atomic<uint32_t> length_;
  std::atomic<uint64_t> words_[kBytes / 8];
};

using ErrorText = SharedText<512>;
using NoticeText = SharedText<320>;
using JobText = SharedText<64>;
extern template class SharedText<512>;
extern template class SharedText<320>;
extern template class SharedText<64>;

}  // namespace harmonaize
