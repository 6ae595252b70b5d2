#include "src/schedule/algorithms/rank_order.h"

#include <algorithm>
#include <utility>

#include "src/schedule/algorithms/forest.h"
#include "src/schedule/ir/program_builder.h"

namespace harmonaize {
namespace {

/// Returns the runs of consecutive ranks on one host, in rank order.
std::vector<Part> RunsOf(const HostPlacement& placement) {
  std::vector<Part> runs;
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const int position = placement.PositionOfRank(rank);
    if (runs.empty() || runs.back().position != position) runs.push_back({position, {}});
    runs.back().ranks.push_back(rank);
  }
  return runs;
}

/// The trees of a rank-order chain: along the runs, and from the last one to a host.
class RunChain {
 public:
  RunChain(const HostPlacement& placement, Forest& forest)
      : placement_(placement), forest_(forest), runs_(RunsOf(placement)) {
    forest.parts = runs_;
    for (int position = 0; position < placement.hosts(); ++position) {
      forest.parts.push_back({position, {}});
    }
    tree_to_.assign(static_cast<size_t>(placement.hosts()), -1);
  }

  size_t runs() const { return runs_.size(); }
  int last_host() const { return runs_.back().position; }

  /// Returns the number of the tree that ends at a host.
  int TreeTo(int position) {
    int& number = tree_to_[static_cast<size_t>(position)];
    if (number >= 0) return number;
    const int runs = static_cast<int>(runs_.size());
    Tree tree{runs - 1, std::vector<int>(forest_.parts.size(), Tree::kAbsent)};
    for (int run = 0; run < runs; ++run) tree.parent[static_cast<size_t>(run)] = run + 1;
    if (position != last_host()) tree.root = runs + position;  // the part without ranks
    tree.parent[static_cast<size_t>(runs) - 1] = tree.root;
    tree.parent[static_cast<size_t>(tree.root)] = -1;
    number = static_cast<int>(forest_.trees.size());
    forest_.trees.push_back(std::move(tree));
    return number;
  }

  /// Returns the tree from the last host back over the others, those that were passed last first.
  Tree Back() const {
    std::vector<int> order;
    std::vector<bool> seen(static_cast<size_t>(placement_.hosts()), false);
    for (size_t run = runs_.size(); run-- > 0;) {
      const auto position = static_cast<size_t>(runs_[run].position);
      if (!seen[position]) order.push_back(runs_[run].position);
      seen[position] = true;
    }
    return MakeTree(TreeShape::kChain, order);
  }

 private:
  const HostPlacement& placement_;
  Forest& forest_;
  std::vector<Part> runs_;
  std::vector<int> tree_to_;  // by position
};

/// See MakeRankOrderExchange. Turns 0 to h-2 bring the contributions to the home, from the host at
/// distance turn + 1 before it; turn h - 1 reduces; later turns bring results back.
class RankOrderExchange final : public Outline {
 public:
  RankOrderExchange(const Problem& problem, int pieces)
      : Outline("rank-order exchange", problem, pieces) {}

  HostProgram Program(int position) const override;
  Summary Summarize() const override;

 private:
  int hosts() const { return placement().hosts(); }
  int units() const {
    return problem().collective == Collective::kReduceScatter ? placement().ranks() : 1;
  }
  int HomeOf(int unit, int piece) const {
    if (problem().collective == Collective::kReduceScatter) return placement().PositionOfRank(unit);
    return piece % hosts();
  }
  int Distance(int from, int to) const { return (to - from + hosts()) % hosts(); }
  int RootPosition() const { return placement().PositionOfRank(problem().root); }

  std::vector<Block> Outputs(int position, int index) const {
    std::vector<Block> blocks;
    for (const int rank : placement().RanksAt(position)) blocks.push_back(OutputBlock(rank, index));
    return blocks;
  }

  void AddContributions(ProgramBuilder& builder, int position, int home, int index) const;
  void AddHome(ProgramBuilder& builder, int home, int unit, int index) const;
  /// Adds, at the home and at others, the steps that bring a piece's result where it belongs.
  void AddResult(ProgramBuilder& builder, int position, int home, int index) const;
};

void RankOrderExchange::AddContributions(ProgramBuilder& builder, int position, int home,
                                         int index) const {
  const int turn = Distance(position, home) - 1;
  for (const int rank : placement().RanksAt(position)) {
    // A copy of one contribution would do, except for operators that scale contributions.
    const Block scaled = builder.NewScratch(index % pieces());
    const int reduce = builder.Add(turn, index,
                                   {.kind = StepKind::kReduce,
                                    .sources = {InputBlock(rank, index)},
                                    .destinations = {scaled}});
    builder.Add(turn, index,
                {.kind = StepKind::kSend,
                 .sources = {scaled},
                 .peer_host = placement().HostAt(home),
                 .after = {reduce}});
  }
}

void RankOrderExchange::AddHome(ProgramBuilder& builder, int home, int unit, int index) const {
  Step reduce{.kind = StepKind::kReduce};
  for (int rank = 0; rank < placement().ranks(); ++rank) {
    const int from = placement().PositionOfRank(rank);
    if (from == home) {
      reduce.sources.push_back(InputBlock(rank, index));
      continue;
    }
    const Block came = builder.NewScratch(index % pieces());
    reduce.after.push_back(builder.Add(Distance(from, home) - 1, index,
                                       {.kind = StepKind::kReceive,
                                        .destinations = {came},
                                        .peer_host = placement().HostAt(from)}));
    reduce.sources.push_back(came);
  }
  switch (problem().collective) {
    case Collective::kReduceScatter:
      reduce.destinations = {OutputBlock(unit, index % pieces())};
      break;
    case Collective::kAllReduce: reduce.destinations = Outputs(home, index); break;
    default:
      reduce.destinations = {home == RootPosition() ? OutputBlock(problem().root, index)
                                                    : builder.NewScratch(index)};
  }
  const Block result = reduce.destinations[0];
  const int done = builder.Add(hosts() - 1, index, std::move(reduce));
  if (problem().collective == Collective::kReduceScatter) return;
  for (int distance = 1; distance < hosts(); ++distance) {
    const int to = (home + distance) % hosts();
    if (problem().collective == Collective::kReduce && to != RootPosition()) continue;
    builder.Add(hosts() - 1 + distance, index,
                {.kind = StepKind::kSend,
                 .sources = {result},
                 .peer_host = placement().HostAt(to),
                 .after = {done}});
  }
}

void RankOrderExchange::AddResult(ProgramBuilder& builder, int position, int home,
                                  int index) const {
  if (problem().collective == Collective::kReduceScatter) return;
  std::vector<Block> outputs = Outputs(position, index);
  if (problem().collective == Collective::kReduce) {
    if (position != RootPosition()) return;
    outputs = {OutputBlock(problem().root, index)};
  }
  builder.Add(hosts() - 1 + Distance(home, position), index,
              {.kind = StepKind::kReceive,
               .destinations = std::move(outputs),
               .peer_host = placement().HostAt(home)});
}

HostProgram RankOrderExchange::Program(int position) const {
  ProgramBuilder builder(placement().HostAt(position), pieces(), 1);
  for (int unit = 0; unit < units(); ++unit) {
    for (int piece = 0; piece < pieces(); ++piece) {
      const int home = HomeOf(unit, piece);
      const int index = unit * pieces() + piece;
      if (home == position) {
        AddHome(builder, home, unit, index);
      } else {
        AddContributions(builder, position, home, index);
        AddResult(builder, position, home, index);
      }
    }
  }
  return builder.Take();
}

Summary RankOrderExchange::Summarize() const {
  Summary summary;
  summary.pieces = pieces();
  for (int host = 0; host < hosts(); ++host) {
    summary.hosts.push_back({.host = placement().HostAt(host)});
  }
  std::vector<uint64_t> blocks_at(static_cast<size_t>(hosts()), 0);  // by home
  for (int unit = 0; unit < units(); ++unit) {
    for (int piece = 0; piece < pieces(); ++piece) {
      ++blocks_at[static_cast<size_t>(HomeOf(unit, piece))];
    }
  }
  LoadTable loads;
  const auto send = [&](int from, int to, uint64_t blocks, uint64_t written_each) {
    loads.Add(placement().HostAt(from), placement().HostAt(to), -1, blocks);
    HostTraffic& sender = summary.hosts[static_cast<size_t>(from)];
    sender.read += blocks;
    sender.sent += blocks;
    HostTraffic& receiver = summary.hosts[static_cast<size_t>(to)];
    receiver.received += blocks;
    receiver.written += blocks * written_each;
  };
  const Collective collective = problem().collective;
  for (int home = 0; home < hosts(); ++home) {
    const uint64_t blocks = blocks_at[static_cast<size_t>(home)];
    const auto ranks_at = [&](int position) { return placement().RanksAt(position).size(); };
    HostTraffic& at_home = summary.hosts[static_cast<size_t>(home)];
    at_home.read += blocks * static_cast<uint64_t>(placement().ranks());
    at_home.written += blocks * (collective == Collective::kAllReduce ? ranks_at(home) : 1);
    for (int other = 0; other < hosts(); ++other) {
      if (other == home) continue;
      HostTraffic& contributor = summary.hosts[static_cast<size_t>(other)];
      contributor.read += blocks * ranks_at(other);
      contributor.written += blocks * ranks_at(other);
      send(other, home, blocks * ranks_at(other), 1);
      if (collective == Collective::kAllReduce) send(home, other, blocks, ranks_at(other));
      const bool to_root = collective == Collective::kReduce && other == RootPosition();
      if (to_root) send(home, other, blocks, 1);
      if (blocks == 0) continue;
      const bool twice = to_root || collective == Collective::kAllReduce;
      summary.dependent_messages = std::max(summary.dependent_messages, twice ? 2 : 1);
    }
  }
  summary.loads = loads.Take();
  return summary;
}

}  // namespace

OutlineResult MakeRankOrderChain(const Problem& problem, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (!Reduces(problem.collective)) {
    return NotCarriedOut("a chain in rank order", problem.collective);
  }
  const HostPlacement placement(problem.host_of_rank);
  Forest forest;
  forest.pieces = pieces;
  RunChain chain(placement, forest);
  forest.keeps_scratch = chain.runs() > static_cast<size_t>(placement.hosts());
  if (problem.collective == Collective::kReduceScatter) {
    int start = 0;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const int tree = chain.TreeTo(placement.PositionOfRank(rank));
      for (int piece = 0; piece < pieces; ++piece) {
        forest.flows.push_back({rank, piece, tree, -1, start++});
      }
    }
    return MakeForestOutline("rank-order chain", problem, std::move(forest));
  }
  const bool all_reduce = problem.collective == Collective::kAllReduce;
  const int to = all_reduce ? chain.last_host() : placement.PositionOfRank(problem.root);
  const int reduce_tree = chain.TreeTo(to);
  int broadcast_tree = -1;
  if (all_reduce) {
    broadcast_tree = static_cast<int>(forest.trees.size());
    forest.trees.push_back(chain.Back());
  }
  for (int piece = 0; piece < pieces; ++piece) {
    forest.flows.push_back({0, piece, reduce_tree, broadcast_tree, piece});
  }
  return MakeForestOutline("rank-order chain", problem, std::move(forest));
}

OutlineResult MakeRankOrderExchange(const Problem& problem, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  if (!Reduces(problem.collective)) {
    return NotCarriedOut("an exchange in rank order", problem.collective);
  }
  int64_t per_unit = pieces;
  if (problem.collective != Collective::kReduceScatter) {
    per_unit *= HostPlacement(problem.host_of_rank).hosts();
  }
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  return std::unique_ptr<Outline>(
      std::make_unique<RankOrderExchange>(problem, static_cast<int>(per_unit)));
}

}  // namespace harmonaize
