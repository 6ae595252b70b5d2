#include "src/schedule/ir/schedule.h"

#include <algorithm>

namespace harmonaize {
namespace {

/// Returns BlocksOf, with the two ranks of a point-to-point schedule told apart.
BufferBlocks UnitsOf(const Schedule& schedule, int rank) {
  if (schedule.collective == Collective::kSend) {
    return rank == 0 ? BufferBlocks{1, 0} : BufferBlocks{0, 1};
  }
  return BlocksOf(schedule.collective, schedule.ranks, rank, schedule.root);
}

}  // namespace

int InputBlocks(const Schedule& schedule, int rank) {
  return static_cast<int>(UnitsOf(schedule, rank).send) * schedule.pieces;
}

int OutputBlocks(const Schedule& schedule, int rank) {
  return static_cast<int>(UnitsOf(schedule, rank).receive) * schedule.pieces;
}

std::optional<Block> InPlaceInput(const Schedule& schedule, const Block& output) {
  const int rank = output.rank;
  const int own_unit = rank * schedule.pieces;
  int input_index = output.index;
  switch (schedule.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllToAll: break;
    case Collective::kAllGather:
    case Collective::kGather: input_index -= own_unit; break;
    case Collective::kReduceScatter:
    case Collective::kScatter: input_index += own_unit; break;
    case Collective::kSend:
    case Collective::kReceive: return std::nullopt;
  }
  if (input_index < 0 || input_index >= InputBlocks(schedule, rank)) return std::nullopt;
  return InputBlock(rank, input_index);
}

BlockExtent ExtentOf(uint64_t count, int pieces, int index) {
  const auto divisor = static_cast<uint64_t>(pieces);
  const auto unit = static_cast<uint64_t>(index) / divisor;
  const auto piece = static_cast<uint64_t>(index) % divisor;
  const uint64_t longest = count / divisor + (count % divisor != 0 ? 1 : 0);
  const uint64_t begin = std::min(count, piece * longest);
  const uint64_t end = std::min(count, begin + longest);
  return {unit * count + begin, end - begin};
}

}  // namespace harmonaize
