// Measures what the machine itself allows: collectives of N processes in shared memory, in
// lock-step, without any API, registration or choice at run time.
//
//   compare_bound RANKS FOLDER LARGEST_BYTES
//
// Three variants; the fastest of them is the bound:
//
//   slots      each rank publishes its input in a slot of its own, and takes what it needs from the
//              slots of the others. One crossing of cache lines an operation: best when small.
//   pass       the buffers themselves are shared. Between two barriers each rank does its share of
//              the work: a reduction reads every input once and writes every output once.
//   streaming  the same, writing past the caches: best when the result outgrows them.

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "perf/compare/bound_kernel.h"
#include "perf/compare/forked_ranks.h"
#include "perf/compare/peer_loop.h"

namespace harmonaize::perf {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kSlotBytes = 64 * 1024;
// Most bytes of data that travel in the cache line of their sequence number.
constexpr size_t kInlineBytes = kCacheLine - sizeof(uint64_t);

enum class Way { kSlots, kPass, kStreaming };
constexpr std::array<std::string_view, 3> kWayNames = {"slots", "pass", "streaming"};

Way WayNamed(std::string_view name) {
  return static_cast<Way>(std::find(kWayNames.begin(), kWayNames.end(), name) - kWayNames.begin());
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void AwaitAtLeast(const std::atomic<uint64_t>& value, uint64_t wanted, int spins) {
  for (int tries = 0; value.load(std::memory_order_acquire) < wanted; ++tries) {
    if (tries < spins) {
      Pause();
    } else {
      sched_yield();
    }
  }
}

struct alignas(kCacheLine) Slot {
  std::byte inline_data[kInlineBytes];
  // Released by the owner after the data, acquired by the readers before they read it.
  std::atomic<uint64_t> sequence;
  std::byte data[kSlotBytes];
};

struct alignas(kCacheLine) Flag {
  std::atomic<uint64_t> value;
};

struct Shared {
  std::array<Flag, kPeerMostRanks> barrier;
  // There are two for each rank, which may publish its next input while another still reads the
  // last one. It cannot be two ahead, because it waits for everybody's sequence number.
  std::array<std::array<Slot, 2>, kPeerMostRanks> slots;
};

// The buffers of all ranks, in memory that was shared before the ranks were forked. A buffer takes
// up memory only while it is in use.
class Arena {
 public:
  Arena(int ranks, size_t largest_bytes)
      : stride_((largest_bytes + 2 * kPage - 1) / kPage * kPage),
        memory_(static_cast<std::byte*>(SharedMemory(2 * stride_ * static_cast<size_t>(ranks)))) {}

  bool ok() const { return memory_ != nullptr; }
  size_t stride() const { return stride_; }
  float* Of(size_t rank, bool receives) const {
    return reinterpret_cast<float*>(memory_ + stride_ * (2 * rank + (receives ? 1 : 0)));
  }
  void Empty(float* buffer) const { madvise(buffer, stride_, MADV_REMOVE); }

 private:
  static constexpr size_t kPage = 4096;
  size_t stride_;
  std::byte* memory_;
};

// One rank's view of the work.
class Rank {
 public:
  Rank(Shared* shared, const Arena& arena, int rank, int ranks)
      : shared_(*shared),
        arena_(arena),
        ranks_(static_cast<size_t>(ranks)),
        rank_(static_cast<size_t>(rank)),
        sends_(ranks_),
        recvs_(ranks_),
        ins_(ranks_),
        outs_(ranks_),
        sum_(BestSumKernel()),
        spins_(PeerSpins(ranks)) {
    for (size_t peer = 0; peer < ranks_; ++peer) {
      sends_[peer] = arena_.Of(peer, false);
      recvs_[peer] = arena_.Of(peer, true);
    }
  }

  const Arena& arena() const { return arena_; }

  /// Returns false when the way cannot do this work.
  bool Bind(const PeerWork& work) {
    work_ = work;
    way_ = WayNamed(work.variant);
    return way_ != Way::kSlots || work.send_count * sizeof(float) <= kSlotBytes;
  }

  void Run() {
    if (way_ == Way::kSlots) {
      ExchangeSlots();
      Collect();
    } else {
      Barrier();
      DoShare(way_ == Way::kStreaming);
      Barrier();
    }
  }

 private:
  void Barrier() {
    ++round_;
    shared_.barrier[rank_].value.store(round_, std::memory_order_release);
    for (size_t peer = 0; peer < ranks_; ++peer)
      AwaitAtLeast(shared_.barrier[peer].value, round_, spins_);
  }

  bool Is(PeerKind kind) const { return work_.kind == kind; }
  bool HasInput() const { return rank_ == 0 || !(Is(kPeerBroadcast) || Is(kPeerScatter)); }

  void ExchangeSlots() {
    const uint64_t sequence = ++published_;
    Slot& mine = shared_.slots[rank_][sequence % 2];
    const size_t bytes = work_.send_count * sizeof(float);
    const bool in_line = bytes <= kInlineBytes;
    if (HasInput() && in_line) {
      // Always copies the whole line: a copy of fixed size is two instructions, and buffers are
      // padded.
      std::memcpy(mine.inline_data, sends_[rank_], kInlineBytes);
    } else if (HasInput()) {
      std::memcpy(mine.data, sends_[rank_], bytes);
    }
    mine.sequence.store(sequence, std::memory_order_release);
    ins_[rank_] = sends_[rank_];
    for (size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      Slot& slot = shared_.slots[peer][sequence % 2];
      AwaitAtLeast(slot.sequence, sequence, spins_);
      ins_[peer] = reinterpret_cast<float*>(in_line ? slot.inline_data : slot.data);
    }
  }

  // Computes this rank's output from the inputs in ins_.
  void Collect() {
    float* out = recvs_[rank_];
    const size_t block = work_.block;
    if (Is(kPeerAllReduce) || (Is(kPeerReduce) && rank_ == 0)) {
      sum_(&out, 1, ins_.data(), work_.ranks, block, false);
    } else if (Is(kPeerReduceScatter)) {
      for (const float*& in : ins_) in += rank_ * block;
      sum_(&out, 1, ins_.data(), work_.ranks, block, false);
    } else if (Is(kPeerBroadcast)) {
      if (rank_ != 0) Copy(out, ins_[0], block, false);
    } else if (Is(kPeerScatter)) {
      Copy(out, ins_[0] + rank_ * block, block, false);
    } else if (Is(kPeerSendReceive)) {
      Copy(out, ins_[Previous()], block, false);
    } else if (Is(kPeerAllGather) || Is(kPeerAllToAll) || (Is(kPeerGather) && rank_ == 0)) {
      const size_t offset = Is(kPeerAllToAll) ? rank_ * block : 0;
      for (size_t peer = 0; peer < ranks_; ++peer) {
        Copy(out + peer * block, ins_[peer] + offset, block, false);
      }
    }
  }

  // Does this rank's part of the work on the shared buffers; all parts together are the collective.
  void DoShare(bool streaming) {
    const size_t block = work_.block;
    if (Is(kPeerAllReduce)) {
      SumShare(recvs_, streaming);
    } else if (Is(kPeerReduce)) {
      SumShare({recvs_[0]}, streaming);
    } else if (Is(kPeerBroadcast)) {
      const auto [begin, count] = Share();
      for (size_t m = 1; m < ranks_; ++m) outs_[m - 1] = recvs_[m] + begin;
      const float* in = sends_[0] + begin;
      if (ranks_ > 1) sum_(outs_.data(), work_.ranks - 1, &in, 1, count, streaming);
    } else if (Is(kPeerAllGather)) {
      for (size_t m = 0; m < ranks_; ++m) outs_[m] = recvs_[m] + rank_ * block;
      const float* in = sends_[rank_];
      sum_(outs_.data(), work_.ranks, &in, 1, block, streaming);
    } else if (Is(kPeerGather)) {
      Copy(recvs_[0] + rank_ * block, sends_[rank_], block, streaming);
    } else if (Is(kPeerScatter)) {
      Copy(recvs_[rank_], sends_[0] + rank_ * block, block, streaming);
    } else if (Is(kPeerReduceScatter)) {
      for (size_t n = 0; n < ranks_; ++n) ins_[n] = sends_[n] + rank_ * block;
      sum_(&recvs_[rank_], 1, ins_.data(), work_.ranks, block, streaming);
    } else if (Is(kPeerSendReceive)) {
      Copy(recvs_[rank_], sends_[Previous()], block, streaming);
    } else {
      for (size_t peer = 0; peer < ranks_; ++peer) {
        Copy(recvs_[rank_] + peer * block, sends_[peer] + rank_ * block, block, streaming);
      }
    }
  }

  size_t Previous() const { return (rank_ + ranks_ - 1) % ranks_; }

  struct Range {
    size_t begin;
    size_t count;
  };
  // Returns whole cache lines, so that no two ranks write the same one.
  Range Share() const {
    constexpr size_t kLine = kCacheLine / sizeof(float);
    const size_t lines = (work_.block + kLine - 1) / kLine;
    const size_t begin = std::min(work_.block, lines * rank_ / ranks_ * kLine);
    const size_t end = std::min(work_.block, lines * (rank_ + 1) / ranks_ * kLine);
    return {begin, end - begin};
  }

  void SumShare(const std::vector<float*>& targets, bool streaming) {
    const auto [begin, count] = Share();
    for (size_t n = 0; n < ranks_; ++n) ins_[n] = sends_[n] + begin;
    for (size_t m = 0; m < targets.size(); ++m) outs_[m] = targets[m] + begin;
    sum_(outs_.data(), static_cast<int>(targets.size()), ins_.data(), work_.ranks, count,
         streaming);
  }

  void Copy(float* to, const float* from, size_t count, bool streaming) {
    sum_(&to, 1, &from, 1, count, streaming);
  }

  Shared& shared_;
  const Arena& arena_;
  PeerWork work_{};
  Way way_ = Way::kPass;
  const size_t ranks_;
  const size_t rank_;
  std::vector<float*> sends_;
  std::vector<float*> recvs_;
  std::vector<const float*> ins_;
  std::vector<float*> outs_;
  SumKernel sum_;
  const int spins_;
  uint64_t round_ = 0;
  uint64_t published_ = 0;
};

Rank& RankOf(void* context) {
  return *static_cast<Rank*>(context);
}

float* Allocate(void* context, const PeerWork* work, int receives, size_t bytes) {
  const Arena& arena = RankOf(context).arena();
  return bytes <= arena.stride() ? arena.Of(static_cast<size_t>(work->rank), receives != 0)
                                 : nullptr;
}

void Release(void* context, const PeerWork*, float* buffer) {
  RankOf(context).arena().Empty(buffer);
}

int Prepare(void* context, const PeerWork* work) {
  return RankOf(context).Bind(*work) ? 0 : kPeerUnsupported;
}

void Finish(void*, const PeerWork*) {}

int Run(void* context, const PeerWork*) {
  RankOf(context).Run();
  return 0;
}

bool Serve(Shared* shared, const Arena& arena, const char* folder, int rank, int ranks) {
  PeerTeam team;
  if (PeerTeamJoin(&team, folder, rank, ranks) != 0) return false;
  Rank view(shared, arena, rank, ranks);
  const PeerLibrary library{.context = &view,
                            .allocate = Allocate,
                            .release = Release,
                            .prepare = Prepare,
                            .finish = Finish,
                            .run = Run};
  return PeerServe(&team, &library) == 0;
}

int Main(int argc, char** argv) {
  const int ranks = argc == 4 ? std::atoi(argv[1]) : 0;
  if (ranks < 1 || ranks > kPeerMostRanks) {
    std::fprintf(stderr, "usage: %s RANKS FOLDER LARGEST_BYTES (perf/compare starts this)\n",
                 argv[0]);
    return 2;
  }
  auto* shared = static_cast<Shared*>(SharedMemory(sizeof(Shared)));
  const Arena arena(ranks, std::strtoull(argv[3], nullptr, 10));
  if (shared == nullptr || !arena.ok()) {
    std::fprintf(stderr, "%s: not enough memory\n", argv[0]);
    return 1;
  }
  const bool ok =
      RunForked(ranks, [&](int rank) { return Serve(shared, arena, argv[2], rank, ranks); });
  return ok ? 0 : 1;
}

}  // namespace

SumKernel BestSumKernel() {
#if defined(HARMONAIZE_BOUND_X86)
  if (__builtin_cpu_supports("avx512f")) return SumAvx512;
  if (__builtin_cpu_supports("avx2")) return SumAvx2;
#endif
  return SumBaseline;
}

}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::Main(argc, argv);
}
