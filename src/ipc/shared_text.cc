#include "src/ipc/shared_text.h"

#include <algorithm>
#include <cstring>

namespace harmonaize {

// Orders. The writer's release stores of the words come after its store of the odd version, so a
// reader whose acquire load saw one new word also sees the odd version (or a later one) in its last
// load and tries again. The final release store of the even version publishes all words.
template <size_t kBytes>
void SharedText<kBytes>::Set(std::string_view text) {
  const uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version | 1u, std::memory_order_relaxed);
  const size_t length = std::min(text.size(), kBytes);
  length_.store(static_cast<uint32_t>(length), std::memory_order_release);
  for (size_t i = 0; i * 8 < length; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i * 8, std::min<size_t>(8, length - i * 8));
    words_[i].store(word, std::memory_order_release);
  }
  version_.store((version | 1u) + 1, std::memory_order_release);
}

template <size_t kBytes>
std::string SharedText<kBytes>::Get() const {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t before = version_.load(std::memory_order_acquire);
    if (before & 1u) continue;
    const size_t length = std::min<size_t>(length_.load(std::memory_order_acquire), kBytes);
    char text[kBytes];
    for (size_t w = 0; w * 8 < length; ++w) {
      const uint64_t word = words_[w].load(std::memory_order_acquire);
      std::memcpy(text + w * 8, &word, 8);
    }
    if (version_.load(std::memory_order_relaxed) == before) return std::string(text, length);
  }
  return "";
}

template class SharedText<512>;
template class SharedText<320>;
template class SharedText<64>;

}  // namespace harmonaize
