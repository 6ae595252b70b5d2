#include "src/schedule/algorithms/gather_scatter.h"

#include <utility>

#include "src/schedule/ir/program_builder.h"

namespace harmonaize {
namespace {

class GatherScatter final : public Outline {
 public:
  GatherScatter(const Problem& problem, int pieces)
      : Outline("direct", problem, pieces), root_(placement().PositionOfRank(problem.root)) {}

  HostProgram Program(int position) const override {
    ProgramBuilder builder(placement().HostAt(position), pieces(), 0);
    for (int distance = 0; distance < placement().hosts(); ++distance) {
      const int other = (root_ + distance) % placement().hosts();
      if (position != root_ && position != other) continue;
      for (const int rank : placement().RanksAt(other)) {
        for (int piece = 0; piece < pieces(); ++piece) {
          builder.Add(piece, distance, Passing(position, other, rank, piece));
        }
      }
    }
    return builder.Take();
  }

  Summary Summarize() const override {
    Summary summary;
    summary.pieces = pieces();
    for (int position = 0; position < placement().hosts(); ++position) {
      summary.hosts.push_back({.host = placement().HostAt(position)});
    }
    LoadTable loads;
    for (int other = 0; other < placement().hosts(); ++other) {
      const int from = gathers() ? other : root_;
      const int to = gathers() ? root_ : other;
      const uint64_t blocks = placement().RanksAt(other).size() * static_cast<uint64_t>(pieces());
      HostTraffic& sender = summary.hosts[static_cast<size_t>(from)];
      HostTraffic& receiver = summary.hosts[static_cast<size_t>(to)];
      sender.read += blocks;
      receiver.written += blocks;
      if (from == to) continue;
      sender.sent += blocks;
      receiver.received += blocks;
      loads.Add(sender.host, receiver.host, -1, blocks);
    }
    summary.loads = loads.Take();
    summary.dependent_messages = placement().hosts() > 1 ? 1 : 0;
    return summary;
  }

 private:
  bool gathers() const { return problem().collective == Collective::kGather; }

  /// Returns the step of the host at `position` for a block of a rank on the host at `other`.
  Step Passing(int position, int other, int rank, int piece) const {
    const int at_root = rank * pieces() + piece;
    const Block source = gathers() ? InputBlock(rank, piece) : InputBlock(problem().root, at_root);
    const Block destination =
        gathers() ? OutputBlock(problem().root, at_root) : OutputBlock(rank, piece);
    if (other == root_) {
      return {.kind = StepKind::kCopy, .sources = {source}, .destinations = {destination}};
    }
    const int peer = placement().HostAt(position == root_ ? other : root_);
    if ((position == root_) == gathers()) {
      return {.kind = StepKind::kReceive, .destinations = {destination}, .peer_host = peer};
    }
    return {.kind = StepKind::kSend, .sources = {source}, .peer_host = peer};
  }

  int root_;  // position
};

}  // namespace

OutlineResult MakeGatherScatter(const Problem& problem, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (problem.collective != Collective::kGather && problem.collective != Collective::kScatter) {
    return NotCarriedOut("the direct gather and scatter", problem.collective);
  }
  return std::unique_ptr<Outline>(std::make_unique<GatherScatter>(problem, pieces));
}

}  // namespace harmonaize
