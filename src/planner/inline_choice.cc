#include "src/planner/inline_choice.h"

#include <algorithm>
#include <cmath>

#include "src/ipc/inline_segment.h"

namespace harmonaize {
namespace {

/// Offload has to be faster by this factor to be chosen.
constexpr double kMargin = 1.1;

/// How many times as long staging takes as copying into a slot of the inline path, which stays in
/// the caches: what is staged is read and written by another processor in between. Fitted to all
/// collectives of 4 and 8 ranks on 2 processors, 512 KiB to 32 MiB, on either path.
constexpr double kStagingCost = 2;
/// Bytes that a rank copies before it wakes the daemon, or is woken.
constexpr double kBytesBetweenWakes = 256 << 10;

/// Returns the number of ranks that take part.
int Participants(const HostOperation& operation) {
  return IsPointToPoint(operation.collective) ? 2 : operation.ranks;
}

/// Returns whether one rank does other work than the rest: a root, or a sender.
bool HasCentre(Collective collective) {
  return HasRoot(collective) || IsPointToPoint(collective);
}

/// Returns how many bytes of a block are published at once.
double PieceBytes(const HostOperation& operation) {
  switch (operation.collective) {
    case Collective::kSend:
    case Collective::kReceive: return kInlinePairSlotBytes;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kScatter: return static_cast<double>(kInlineSlotBytes) / operation.ranks;
    default: return kInlineSlotBytes;
  }
}

/// Returns the blocks of a rank's two buffers.
BufferBlocks BuffersOf(const HostOperation& operation, bool at_root) {
  switch (operation.collective) {
    case Collective::kSend:
    case Collective::kReceive: return {at_root ? 1u : 0u, at_root ? 0u : 1u};
    default: return BlocksOf(operation.collective, operation.ranks, at_root ? 0 : 1, 0);
  }
}

/// Returns the bytes read and written on the offload path.
double TrafficBytes(const HostOperation& operation) {
  const BlockTraffic traffic = OffloadTraffic(operation.collective, operation.ranks);
  return static_cast<double>(traffic.read + traffic.written) *
         static_cast<double>(operation.block_bytes);
}

/// Returns the bytes that are read and written when buffers can be reached directly: by each rank,
/// by the root where it works alone, or by the receiver of a pair.
double DirectBytes(const HostOperation& operation) {
  const double ranks = operation.ranks;
  const auto block = static_cast<double>(operation.block_bytes);
  switch (operation.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter: return (ranks + 1) * block;
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kAllToAll: return 2 * ranks * block;
    default: return 2 * block;
  }
}

/// Returns whether only the root has something to do.
bool RootWorksAlone(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kGather;
}

}  // namespace

BlockTraffic OffloadTraffic(Collective collective, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  switch (collective) {
    case Collective::kAllReduce: return {n, n};
    case Collective::kReduce: return {n, 1};
    case Collective::kBroadcast: return {1, n};
    case Collective::kAllGather: return {n, n * n};
    case Collective::kReduceScatter: return {n * n, n};
    case Collective::kAllToAll: return {n * n, n * n};
    case Collective::kGather:
    case Collective::kScatter: return {n, n};
    case Collective::kSend:
    case Collective::kReceive: return {1, 1};
  }
  return {};
}

// ---------------------------------------------------------------------------------------------
// Inline

InlineChoice::Work InlineChoice::WorkOf(const HostOperation& operation, bool at_root) {
  const auto block = static_cast<double>(operation.block_bytes);
  const double others = (operation.ranks - 1) * block;
  const double sum = (operation.ranks + 1) * block;
  const BufferBlocks buffers = BuffersOf(operation, at_root);
  Work work;
  work.own = static_cast<double>(buffers.send + buffers.receive) * block;
  switch (operation.collective) {
    case Collective::kAllReduce:
      work.copied = block;
      work.reduced = sum;
      break;
    case Collective::kReduceScatter:
      work.copied = others;
      work.reduced = sum;
      break;
    case Collective::kReduce: (at_root ? work.reduced : work.copied) = at_root ? sum : block; break;
    case Collective::kBroadcast:
      work.copied = at_root ? 2 * block : 0;
      work.fetched = at_root ? 0 : block;
      break;
    case Collective::kScatter:
      work.copied = at_root ? others + block : 0;
      work.fetched = at_root ? 0 : block;
      break;
    case Collective::kGather:
      work.copied = block;
      work.fetched = at_root ? others : 0;
      break;
    case Collective::kAllGather:
      work.copied = 2 * block;
      work.fetched = others;
      break;
    case Collective::kAllToAll:
      work.copied = others + block;
      work.fetched = others;
      break;
    case Collective::kSend:
    case Collective::kReceive: (at_root ? work.copied : work.fetched) = block; break;
  }
  return work;
}

double InlineChoice::InlineSeconds(const HostOperation& operation) const {
  const bool direct =
      operation.registered && operation.block_bytes >= LeastDirectBytes(operation.collective);
  return direct ? DirectSeconds(operation) : SlotSeconds(operation);
}

// The ranks meet twice: when all buffers are known, and when all are done with them.
double InlineChoice::DirectSeconds(const HostOperation& operation) const {
  const int ranks = Participants(operation);
  const bool one_works =
      IsPointToPoint(operation.collective) || RootWorksAlone(operation.collective);
  const double turns = one_works ? 1 : Turns(ranks);
  return 2 * InlineLatency(ranks) + turns * MappedSeconds(operation, DirectBytes(operation));
}

double InlineChoice::SlotSeconds(const HostOperation& operation) const {
  const int ranks = Participants(operation);
  const auto block = static_cast<double>(operation.block_bytes);
  const bool beyond_cache = BeyondCache(operation);
  const double pieces = std::max(1.0, std::ceil(block / PieceBytes(operation)));
  const double latency = pieces * InlineLatency(ranks);
  const double other = Seconds(WorkOf(operation, false), beyond_cache);
  if (!HasCentre(operation.collective)) return latency + Turns(ranks) * other;

  const double root = Seconds(WorkOf(operation, true), beyond_cache);
  const double mean = (root + (ranks - 1) * other) / ranks;
  // Pieces overlap, so the busiest side sets the pace. Only for the first piece has one side to
  // wait until the other has published it. One side meets the others while they still work.
  return latency / (1 + kInlineLookahead) + std::max({root, other, Turns(ranks) * mean}) +
         std::min(root, other) / pieces;
}

// A rank looks at the lines of all others. With fewer processors than ranks it also gives way until
// all have had their turn.
double InlineChoice::InlineLatency(int ranks) const {
  const double looks = (ranks - 1) * costs_.handoff_ns * 1e-9;
  return ranks > shape_.processors ? looks + Turns(ranks) * costs_.yield_ns * 1e-9 : looks;
}

double InlineChoice::Seconds(const Work& work, bool beyond_cache) const {
  const double copied = work.copied / costs_.copy_bytes_per_second;
  const double fetched = work.fetched / costs_.fetch_bytes_per_second;
  const double reduced = work.reduced / costs_.reduce_bytes_per_second;
  return copied + fetched + reduced +
         MemorySeconds(work.own, 2 * costs_.copy_bytes_per_second, beyond_cache);
}

// ---------------------------------------------------------------------------------------------
// Offload

double InlineChoice::OffloadSeconds(const HostOperation& operation) const {
  const double latency = OffloadLatency(Participants(operation));
  const double bytes = TrafficBytes(operation);
  const double mapped = MappedSeconds(operation, bytes) / Shares(bytes);
  return latency + mapped + (operation.registered ? 0 : StagingSeconds(operation));
}

// The engine wakes the ranks one after the other. Where they share few processors with it, each of
// these threads has to wait for its turn.
double InlineChoice::OffloadLatency(int ranks) const {
  const double crowd = std::max(1.0, (ranks + 1.0) / shape_.processors);
  return (crowd * costs_.round_trip_ns + (ranks - 1) * costs_.wake_ns) * 1e-9;
}

// The busiest rank copies its buffers to shared memory, or back, and is woken now and then.
double InlineChoice::StagingSeconds(const HostOperation& operation) const {
  const double root = WorkOf(operation, true).own;
  const double other = WorkOf(operation, false).own;
  const double copied = HasCentre(operation.collective) ? std::max(root, other)
                                                        : Turns(Participants(operation)) * other;
  return kStagingCost * copied / costs_.copy_bytes_per_second +
         2 * copied / kBytesBetweenWakes * costs_.wake_ns * 1e-9;
}

double InlineChoice::Shares(double bytes) const {
  const int most = std::max(1, std::min(shape_.workers, shape_.processors));
  return std::clamp(bytes / static_cast<double>(shape_.share_bytes), 1.0,
                    static_cast<double>(most));
}

// ---------------------------------------------------------------------------------------------
// Both

// The time for one thread to read and write `bytes` of the operation's data in place.
double InlineChoice::MappedSeconds(const HostOperation& operation, double bytes) const {
  const double rate = Reduces(operation.collective) ? costs_.reduce_bytes_per_second
                                                    : 2 * costs_.fetch_bytes_per_second;
  return bytes / rate + MemorySeconds(bytes, rate, BeyondCache(operation));
}

bool InlineChoice::BeyondCache(const HostOperation& operation) const {
  return TrafficBytes(operation) > static_cast<double>(shape_.last_level_bytes);
}

// The extra time, beyond that at `rate`, of `bytes` that come from memory or go there.
double InlineChoice::MemorySeconds(double bytes, double rate, bool beyond_cache) const {
  if (!beyond_cache) return 0;
  return std::max(0.0, bytes / costs_.stream_bytes_per_second - bytes / rate);
}

double InlineChoice::Turns(int ranks) const {
  return std::ceil(static_cast<double>(ranks) / shape_.processors);
}

uint64_t InlineChoice::Limit(Collective collective, int ranks, bool registered) const {
  uint64_t limit = 0;
  for (uint64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 2) {
    const HostOperation operation{collective, ranks, bytes, registered};
    if (InlineSeconds(operation) > kMargin * OffloadSeconds(operation)) break;
    limit = bytes;
  }
  return limit;
}

}  // namespace harmonaize
