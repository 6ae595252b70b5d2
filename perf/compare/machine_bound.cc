// What the machine itself allows: collectives of N processes in shared memory, in lock-step,
// without any API, any registration, any choice at run time.
//
//   compare_bound RANKS COLLECTIVE BYTES ITERATIONS WARMUP
//
// Three ways are tried, and the fastest is the bound:
//
//   slots      each rank publishes its input in a slot of its own, and takes what it needs from the
//              slots of the others. One crossing of cache lines an operation: best when small.
//   pass       the buffers themselves are shared. Between two barriers each rank does its share of
//              the work: a reduction reads every input once and writes every output once.
//   streaming  the same, writing past the caches: best when the result outgrows them.
//
// Prints one line of JSON.

#include <sched.h>

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
#include "perf/compare/peer_work.h"

namespace harmonaize::perf {
namespace {

constexpr int kMostRanks = 64;
constexpr size_t kCacheLine = 64;
constexpr size_t kSlotBytes = 64 * 1024;
// Data of up to this size travel in the cache line of their sequence number.
constexpr size_t kInlineBytes = kCacheLine - sizeof(uint64_t);

enum class Way { kSlots, kPass, kStreaming };
constexpr std::array<std::string_view, 3> kWayNames = {"slots", "pass", "streaming"};

// The collective as a number: comparing its name would cost more than a small operation.
enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kSendReceive,
  kAllToAll,
};
constexpr std::array<std::string_view, 9> kKindNames = {"all_reduce",     "reduce",   "broadcast",
                                                        "all_gather",     "gather",   "scatter",
                                                        "reduce_scatter", "sendrecv", "alltoall"};

Kind KindOf(std::string_view name) {
  return static_cast<Kind>(std::find(kKindNames.begin(), kKindNames.end(), name) -
                           kKindNames.begin());
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Long enough for any crossing of cache lines, short enough that ranks beyond the number of cores
// get their turn.
constexpr int kSpins = 2000;

void AwaitAtLeast(const std::atomic<uint64_t>& value, uint64_t wanted) {
  for (int spins = 0; value.load(std::memory_order_acquire) < wanted; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      sched_yield();
    }
  }
}

struct alignas(kCacheLine) Slot {
  std::byte inline_data[kInlineBytes];
  // Released by the owner after the data, acquired by the readers before they look at them.
  std::atomic<uint64_t> sequence;
  std::byte data[kSlotBytes];
};

struct alignas(kCacheLine) Flag {
  std::atomic<uint64_t> value;
};

struct Shared {
  std::array<Flag, kMostRanks> barrier;
  // Two each: a rank may publish its next input while another still reads the last one. It cannot
  // be two ahead, because it waits for everybody's sequence number.
  std::array<std::array<Slot, 2>, kMostRanks> slots;
  std::array<std::array<double, kWayNames.size()>, kMostRanks> seconds;
  std::array<long, kMostRanks> wrong;
};

// One rank's view of the work.
class Rank {
 public:
  Rank(Shared* shared, const PeerWork& work, std::vector<float*> sends, std::vector<float*> recvs)
      : shared_(*shared),
        work_(work),
        kind_(KindOf(work.collective)),
        ranks_(static_cast<size_t>(work.ranks)),
        rank_(static_cast<size_t>(work.rank)),
        sends_(std::move(sends)),
        recvs_(std::move(recvs)),
        ins_(ranks_),
        outs_(ranks_),
        sum_(BestSumKernel()) {}

  void Barrier() {
    ++round_;
    shared_.barrier[rank_].value.store(round_, std::memory_order_release);
    for (size_t peer = 0; peer < ranks_; ++peer) AwaitAtLeast(shared_.barrier[peer].value, round_);
  }

  void Run(Way way) {
    if (way == Way::kSlots) {
      ExchangeSlots();
      Collect();
    } else {
      Barrier();
      DoShare(way == Way::kStreaming);
      Barrier();
    }
  }

  long CountWrong() const { return PeerCountWrong(&work_, recvs_[rank_]); }
  void Clear() { std::memset(recvs_[rank_], 0, work_.recv_count * sizeof(float)); }

 private:
  bool Is(Kind kind) const { return kind_ == kind; }
  bool HasInput() const { return rank_ == 0 || !(Is(Kind::kBroadcast) || Is(Kind::kScatter)); }

  void ExchangeSlots() {
    const uint64_t sequence = ++published_;
    Slot& mine = shared_.slots[rank_][sequence % 2];
    const size_t bytes = work_.send_count * sizeof(float);
    const bool in_line = bytes <= kInlineBytes;
    if (HasInput() && in_line) {
      // Always the whole line: a copy of fixed size is two instructions, and buffers are padded.
      std::memcpy(mine.inline_data, sends_[rank_], kInlineBytes);
    } else if (HasInput()) {
      std::memcpy(mine.data, sends_[rank_], bytes);
    }
    mine.sequence.store(sequence, std::memory_order_release);
    ins_[rank_] = sends_[rank_];
    for (size_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      Slot& slot = shared_.slots[peer][sequence % 2];
      AwaitAtLeast(slot.sequence, sequence);
      ins_[peer] = reinterpret_cast<float*>(in_line ? slot.inline_data : slot.data);
    }
  }

  // Takes this rank's output from the inputs in ins_.
  void Collect() {
    float* out = recvs_[rank_];
    const size_t block = work_.block;
    if (Is(Kind::kAllReduce) || (Is(Kind::kReduce) && rank_ == 0)) {
      sum_(&out, 1, ins_.data(), work_.ranks, block, false);
    } else if (Is(Kind::kReduceScatter)) {
      for (const float*& in : ins_) in += rank_ * block;
      sum_(&out, 1, ins_.data(), work_.ranks, block, false);
    } else if (Is(Kind::kBroadcast)) {
      if (rank_ != 0) Copy(out, ins_[0], block, false);
    } else if (Is(Kind::kScatter)) {
      Copy(out, ins_[0] + rank_ * block, block, false);
    } else if (Is(Kind::kSendReceive)) {
      Copy(out, ins_[Previous()], block, false);
    } else if (Is(Kind::kAllGather) || Is(Kind::kAllToAll) || (Is(Kind::kGather) && rank_ == 0)) {
      const size_t offset = Is(Kind::kAllToAll) ? rank_ * block : 0;
      for (size_t peer = 0; peer < ranks_; ++peer) {
        Copy(out + peer * block, ins_[peer] + offset, block, false);
      }
    }
  }

  // This rank's part of the work on the shared buffers; all parts together are the collective.
  void DoShare(bool streaming) {
    const size_t block = work_.block;
    if (Is(Kind::kAllReduce)) {
      SumShare(recvs_, streaming);
    } else if (Is(Kind::kReduce)) {
      SumShare({recvs_[0]}, streaming);
    } else if (Is(Kind::kBroadcast)) {
      const auto [begin, count] = Share();
      for (size_t m = 1; m < ranks_; ++m) outs_[m - 1] = recvs_[m] + begin;
      const float* in = sends_[0] + begin;
      if (ranks_ > 1) sum_(outs_.data(), work_.ranks - 1, &in, 1, count, streaming);
    } else if (Is(Kind::kAllGather)) {
      for (size_t m = 0; m < ranks_; ++m) outs_[m] = recvs_[m] + rank_ * block;
      const float* in = sends_[rank_];
      sum_(outs_.data(), work_.ranks, &in, 1, block, streaming);
    } else if (Is(Kind::kGather)) {
      Copy(recvs_[0] + rank_ * block, sends_[rank_], block, streaming);
    } else if (Is(Kind::kScatter)) {
      Copy(recvs_[rank_], sends_[0] + rank_ * block, block, streaming);
    } else if (Is(Kind::kReduceScatter)) {
      for (size_t n = 0; n < ranks_; ++n) ins_[n] = sends_[n] + rank_ * block;
      sum_(&recvs_[rank_], 1, ins_.data(), work_.ranks, block, streaming);
    } else if (Is(Kind::kSendReceive)) {
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
  // Whole cache lines, so that no two ranks write the same one.
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
  PeerWork work_;
  const Kind kind_;
  const size_t ranks_;
  const size_t rank_;
  std::vector<float*> sends_;
  std::vector<float*> recvs_;
  std::vector<const float*> ins_;
  std::vector<float*> outs_;
  SumKernel sum_;
  uint64_t round_ = 0;
  uint64_t published_ = 0;
};

bool Applies(Way way, const PeerWork& work) {
  return way != Way::kSlots || work.send_count * sizeof(float) <= kSlotBytes;
}

bool RunRank(Shared* shared, Rank* rank, const PeerWork& work, int iterations, int warmup) {
  const auto index = static_cast<size_t>(work.rank);
  for (const Way way : {Way::kSlots, Way::kPass, Way::kStreaming}) {
    if (!Applies(way, work)) continue;
    rank->Clear();
    rank->Barrier();
    for (int i = 0; i < warmup; ++i) rank->Run(way);
    rank->Barrier();
    const double start = NowSeconds();
    for (int i = 0; i < iterations; ++i) rank->Run(way);
    shared->seconds[index][static_cast<size_t>(way)] = (NowSeconds() - start) / iterations;
    rank->Barrier();
    shared->wrong[index] += rank->CountWrong();
    rank->Barrier();
  }
  return true;
}

// All buffers of one kind, page-aligned.
std::vector<float*> SharedBuffers(int ranks, size_t count) {
  const size_t bytes = (count * sizeof(float) + 4096 + 4095) / 4096 * 4096;
  auto* memory = static_cast<std::byte*>(SharedMemory(bytes * static_cast<size_t>(ranks)));
  std::vector<float*> buffers;
  for (int rank = 0; memory != nullptr && rank < ranks; ++rank) {
    buffers.push_back(reinterpret_cast<float*>(memory + bytes * static_cast<size_t>(rank)));
  }
  return buffers;
}

void Report(const Shared& shared, const PeerWork& work) {
  double best = 0;
  size_t best_way = 0;
  long wrong = 0;
  for (size_t way = 0; way < kWayNames.size(); ++way) {
    if (!Applies(static_cast<Way>(way), work)) continue;
    double seconds = 0;
    for (int rank = 0; rank < work.ranks; ++rank) {
      seconds += shared.seconds[static_cast<size_t>(rank)][way] / work.ranks;
    }
    if (best == 0 || seconds < best) {
      best = seconds;
      best_way = way;
    }
  }
  for (int rank = 0; rank < work.ranks; ++rank) wrong += shared.wrong[static_cast<size_t>(rank)];
  std::printf("{\"peer\": \"bound\", \"time_us\": %.4f, \"wrong\": %ld, \"way\": \"%s\"}\n",
              best * 1e6, wrong, kWayNames[best_way].data());
}

int Main(int argc, char** argv) {
  PeerWork work{};
  work.ranks = argc == 6 ? std::atoi(argv[1]) : 0;
  work.collective = argc == 6 ? argv[2] : "";
  if (work.ranks < 1 || work.ranks > kMostRanks ||
      PeerLayOut(&work, std::strtoull(argv[3], nullptr, 10)) == 0) {
    std::fprintf(stderr, "usage: %s RANKS COLLECTIVE BYTES ITERATIONS WARMUP\n", argv[0]);
    return 2;
  }
  auto* shared = static_cast<Shared*>(SharedMemory(sizeof(Shared)));
  const std::vector<float*> sends = SharedBuffers(work.ranks, work.send_count);
  const std::vector<float*> recvs = SharedBuffers(work.ranks, work.recv_count);
  if (shared == nullptr || sends.empty() || recvs.empty()) {
    std::fprintf(stderr, "%s: not enough memory\n", argv[0]);
    return 1;
  }
  const bool ok = RunForked(work.ranks, [&](int rank) {
    PeerWork mine = work;
    mine.rank = rank;
    float* send = sends[static_cast<size_t>(rank)];
    for (size_t i = 0; i < mine.send_count; ++i) send[i] = PeerInput(rank, i);
    Rank view(shared, mine, sends, recvs);
    return RunRank(shared, &view, mine, std::atoi(argv[4]), std::atoi(argv[5]));
  });
  if (!ok) return 1;
  Report(*shared, work);
  return 0;
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
