#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/base/collective.h"
#include "src/numerics/types.h"

namespace harmonaize {

/// How long a rank waits in an operation on the inline path, without any progress, before it tells
/// the daemon, in nanoseconds. The diagnosis calls nobody late before a second has gone by, and no
/// operation that ends sooner pays anything.
inline constexpr uint64_t kInlineToldAfterNanoseconds = 500'000'000;

/// An operation on the inline path in which a rank waits for others.
struct InlineWait {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kInt8;
  ReduceOperator op = ReduceOperator::kSum;
  int32_t root = -1;       ///< Root rank, or the peer of a send or a receive.
  uint64_t count = 0;      ///< Elements, as in NCCL's calls.
  uint64_t ticket = 0;     ///< The number that all participants count alike: Rendezvous.
  uint32_t for_ranks = 0;  ///< A bit for each rank that it waits for.
};

/// The words by which one rank tells the daemon of such an operation. They say nothing about other
/// communicators or ranks than the ones whose slot they are in, so a lie harms the liar's own job.
/// Written by the rank, by one thread at a time.
struct InlineWaitSlot {
  /// 0: the rank does not wait, or not for long. Otherwise it differs from wait to wait.
  std::atomic<uint32_t> number;
  std::atomic<uint32_t> for_ranks;
  std::atomic<uint64_t> ticket;
  std::atomic<uint64_t> count;
  /// Collective, type and operator, a byte for each from the lowest one on.
  std::atomic<uint32_t> call;
  std::atomic<int32_t> root;
};

/// Writes a wait. `number` is not 0, and not that of the wait before.
void TellInlineWait(const InlineWait& wait, uint32_t number, InlineWaitSlot* slot);
/// Ends what was told.
void TakeBackInlineWait(InlineWaitSlot* slot);

/// What the daemon reads.
struct ToldInlineWait {
  uint32_t number = 0;
  InlineWait wait = {};
};
/// Reads what a rank of a communicator of `ranks` ranks tells. Trusts nothing: returns none if it
/// tells of no wait, is writing, or tells what no honest client could.
std::optional<ToldInlineWait> ReadInlineWait(const InlineWaitSlot& slot, int rank, int ranks);

}  // namespace harmonaize
