#include "src/client/checkpoint/parallel_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "src/base/signals_blocked.h"

namespace harmonaize {
namespace {

/// Bytes that a thread claims at a time: enough for the library's copy to go past the caches, as it
/// does from some MiB on, and few enough for all threads to end together.
constexpr uint64_t kClaimBytes = 8 << 20;
/// Bytes for which another thread pays: it takes some 50 us to begin.
constexpr uint64_t kBytesOfThread = 4 << 20;

/// Deals the bytes of pieces, one claim after the other. Thread: any.
class CopyClaims {
 public:
  explicit CopyClaims(std::span<const CopyPiece> pieces) : pieces_(pieces) {
    ends_.reserve(pieces.size());
    for (const CopyPiece& piece : pieces) ends_.push_back(bytes_ += piece.bytes);
  }

  uint64_t bytes() const { return bytes_; }

  void CopyUntilDone() {
    // Relaxed: each claim is a thread's own, and the threads' end orders what they have written.
    for (;;) {
      const uint64_t begin = next_.fetch_add(kClaimBytes, std::memory_order_relaxed);
      if (begin >= bytes_) return;
      CopyRange(begin, std::min(begin + kClaimBytes, bytes_));
    }
  }

 private:
  /// Copies [begin, end) of all pieces' bytes, one after the other.
  void CopyRange(uint64_t begin, uint64_t end) {
    auto i =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    while (begin < end) {
      const CopyPiece& piece = pieces_[i];
      const uint64_t at = begin - (ends_[i] - piece.bytes);
      const uint64_t bytes = std::min(end, ends_[i]) - begin;
      std::memcpy(piece.to + at, piece.from + at, bytes);
      begin += bytes;
      ++i;
    }
  }

  const std::span<const CopyPiece> pieces_;
  std::vector<uint64_t> ends_;  // by piece: bytes up to its end
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> next_{0};
};

void StartThreads(CopyClaims* claims, uint64_t count, std::vector<std::thread>* threads) {
  const SignalsBlocked blocked;
  try {
    while (threads->size() < count) {
      threads->emplace_back([claims] { claims->CopyUntilDone(); });
    }
  } catch (const std::system_error&) {
    // Those that there are do the work.
  }
}

}  // namespace

void CopyInParallel(std::span<const CopyPiece> pieces, int threads) {
  CopyClaims claims(pieces);
  const auto useful = static_cast<uint64_t>(std::max(1, threads));
  const uint64_t others = std::min(useful - 1, claims.bytes() / kBytesOfThread);
  std::vector<std::thread> helpers;
  helpers.reserve(others);
  if (others > 0) StartThreads(&claims, others, &helpers);
  claims.CopyUntilDone();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace harmonaize
