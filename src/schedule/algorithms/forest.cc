#include "src/schedule/algorithms/forest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "src/schedule/ir/program_builder.h"

namespace harmonaize {
namespace {

/// Turns until scratch memory is used again. In a ring, data that came in one turn is sent in the
/// next, and its memory could be written in the one after that. One more turn keeps a late send
/// from delaying the receive behind it.
constexpr int kReuseDistance = 2;

std::vector<Part> WholeHosts(const HostPlacement& placement) {
  std::vector<Part> parts;
  for (int position = 0; position < placement.hosts(); ++position) {
    parts.push_back({position, placement.RanksAt(position)});
  }
  return parts;
}

class ForestOutline final : public Outline {
 public:
  ForestOutline(std::string name, Problem problem, Forest forest, RouteTable routes);

  HostProgram Program(int position) const override;
  Summary Summarize() const override;

 private:
  friend class ProgramWriter;
  friend class TrafficCount;

  const Tree& TreeAt(int tree) const { return forest_.trees[static_cast<size_t>(tree)]; }
  const TreeWalk& WalkAt(int tree) const { return walks_[static_cast<size_t>(tree)]; }
  const Part& PartAt(int part) const { return forest_.parts[static_cast<size_t>(part)]; }
  int HostOfPart(int part) const { return placement().HostAt(PartAt(part).position); }
  int HeightOf(int tree) const { return tree < 0 ? 0 : WalkAt(tree).height(); }
  /// Returns how many messages of a broadcast precede the one between two positions.
  int TurnOf(const TreeWalk& walk, int parent, int child) const {
    return forest_.gathers_messages ? gathered_.at({parent, child}) : walk.DepthOf(parent);
  }
  /// Returns how many ranks of a host get a result that is made there.
  size_t ResultsAt(int position) const {
    const bool all = problem().collective == Collective::kAllReduce;
    return all ? placement().RanksAt(position).size() : 1;
  }

  void FindGatheredTurns();

  Forest forest_;
  std::vector<TreeWalk> walks_;                  // by tree
  std::vector<std::vector<int>> parts_at_;       // by position
  std::map<std::pair<int, int>, int> gathered_;  // turns by parent and child, where gathered
};

/// Writes the program of one host.
class ProgramWriter {
 public:
  ProgramWriter(const ForestOutline& outline, int position)
      : outline_(outline),
        problem_(outline.problem()),
        position_(position),
        ranks_(outline.placement().RanksAt(position)),
        builder_(outline.placement().HostAt(position), outline.pieces(),
                 problem_.collective == Collective::kReduceScatter && !outline.forest_.keeps_scratch
                     ? kReuseDistance
                     : 0) {}

  HostProgram Write() {
    const std::vector<Flow>& flows = outline_.forest_.flows;
    std::vector<Held> held(flows.size());
    for (size_t number = 0; number < flows.size(); ++number) {
      GoTo(number);
      if (flow_->reduce_tree >= 0) {
        for (const int part : outline_.parts_at_[static_cast<size_t>(position_)]) {
          if (!outline_.TreeAt(flow_->reduce_tree).Has(part)) continue;
          if (const std::optional<Held> complete = Reduce(part)) held[number] = *complete;
        }
      }
      if (flow_->broadcast_tree >= 0) held[number] = Obtain(held[number]);
    }
    // The steps that it waits for may be of any flow.
    for (size_t number = 0; number < flows.size(); ++number) {
      GoTo(number);
      if (flow_->broadcast_tree >= 0) PassOn(held[number]);
    }
    return builder_.Take();
  }

 private:
  /// A block, and the step of this host that made its content (-1: none).
  struct Held {
    Block block;
    int step = -1;
  };

  /// The last receive from another host, and its turn.
  struct Gathered {
    int step = -1;
    int turn = 0;
  };

  void GoTo(size_t number) {
    flow_ = &outline_.forest_.flows[number];
    number_ = static_cast<int>(number);
  }

  static std::vector<int> After(int step) {
    return step < 0 ? std::vector<int>{} : std::vector<int>{step};
  }

  int Add(int turn, Step step) { return builder_.Add(turn, number_, std::move(step)); }

  int BlockIndex() const { return flow_->unit * outline_.pieces() + flow_->piece; }

  std::vector<Block> Inputs(const Part& part) const {
    std::vector<Block> blocks;
    for (const int rank : part.ranks) blocks.push_back(InputBlock(rank, BlockIndex()));
    return blocks;
  }

  /// Returns the block's place in every output of this host.
  std::vector<Block> Outputs() const {
    std::vector<Block> blocks;
    for (const int rank : ranks_) blocks.push_back(OutputBlock(rank, BlockIndex()));
    return blocks;
  }

  /// Returns where a complete reduction belongs.
  std::vector<Block> Results() const {
    switch (problem_.collective) {
      case Collective::kReduce: return {OutputBlock(problem_.root, flow_->piece)};
      case Collective::kReduceScatter: return {OutputBlock(flow_->unit, flow_->piece)};
      default: return Outputs();
    }
  }

  /// Adds the steps of one node of the reduction. At the root, returns the complete result.
  std::optional<Held> Reduce(int part) {
    const Tree& tree = outline_.TreeAt(flow_->reduce_tree);
    const TreeWalk& walk = outline_.WalkAt(flow_->reduce_tree);
    const bool at_root = part == tree.root;
    const int children = walk.ChildCount(part);
    Block partial;
    if (!at_root || children > 1) partial = builder_.NewScratch(flow_->piece);
    int last = -1;
    const auto inputs = [&] { return Inputs(outline_.PartAt(part)); };
    const auto targets = [&](bool complete) {
      return complete ? Results() : std::vector<Block>{partial};
    };
    if (children == 0) {
      last =
          Add(flow_->start,
              {.kind = StepKind::kReduce, .sources = inputs(), .destinations = targets(at_root)});
    }
    const bool delivers = outline_.PartAt(part).ranks.empty();
    for (int number = 0; number < children; ++number) {
      const int child = walk.Child(part, number);
      last = Add(flow_->start + walk.HeightOf(child),
                 {.kind = delivers ? StepKind::kReceive : StepKind::kReceiveReduce,
                  .sources = number == 0 ? inputs() : std::vector<Block>{partial},
                  .destinations = targets(at_root && number == children - 1),
                  .peer_host = outline_.HostOfPart(child),
                  .after = After(last),
                  .path = tree.PathOf(child)});
    }
    if (at_root) return Held{Results()[0], last};
    Add(flow_->start + walk.HeightOf(part),
        {.kind = StepKind::kSend,
         .sources = {partial},
         .peer_host = outline_.HostOfPart(tree.parent[static_cast<size_t>(part)]),
         .after = {last},
         .path = tree.PathOf(part)});
    return std::nullopt;
  }

  int FirstBroadcastTurn() const { return flow_->start + outline_.HeightOf(flow_->reduce_tree); }

  /// Returns the block to be broadcast, once it is here. `result`: of an all-reduce, at the root.
  Held Obtain(const Held& result) {
    const Tree& tree = outline_.TreeAt(flow_->broadcast_tree);
    const TreeWalk& walk = outline_.WalkAt(flow_->broadcast_tree);
    if (position_ == tree.root) {
      return flow_->reduce_tree < 0 ? CopyToOutputs(FirstBroadcastTurn()) : result;
    }
    const std::vector<Block> outputs = Outputs();
    const int parent = tree.parent[static_cast<size_t>(position_)];
    const int turn = outline_.TurnOf(walk, parent, position_);
    const int receive =
        Add(FirstBroadcastTurn() + turn, {.kind = StepKind::kReceive,
                                          .destinations = outputs,
                                          .peer_host = outline_.placement().HostAt(parent),
                                          .path = tree.PathOf(position_)});
    if (outline_.forest_.gathers_messages) gathered_from_[parent] = {receive, turn};
    return {outputs[0], receive};
  }

  void PassOn(const Held& held) {
    const Tree& tree = outline_.TreeAt(flow_->broadcast_tree);
    const TreeWalk& walk = outline_.WalkAt(flow_->broadcast_tree);
    // The highest subtree comes first: it has the longest way to go.
    for (int number = walk.ChildCount(position_); number-- > 0;) {
      const int child = walk.Child(position_, number);
      const int turn = outline_.TurnOf(walk, position_, child);
      std::vector<int> after = After(held.step);
      for (const auto& [from, last] : gathered_from_) {
        const bool others = from != child && last.step != held.step;
        if (others && last.turn < turn) after.push_back(last.step);
      }
      Add(FirstBroadcastTurn() + turn, {.kind = StepKind::kSend,
                                        .sources = {held.block},
                                        .peer_host = outline_.placement().HostAt(child),
                                        .after = std::move(after),
                                        .path = tree.PathOf(child)});
    }
  }

  Held CopyToOutputs(int turn) {
    const bool gathers = problem_.collective == Collective::kAllGather;
    const Block input = InputBlock(gathers ? flow_->unit : problem_.root, flow_->piece);
    const std::vector<Block> outputs = Outputs();
    const int copy =
        Add(turn, {.kind = StepKind::kCopy, .sources = {input}, .destinations = outputs});
    // In place, the copy writes the input (with its own content), and nothing may read it
    // meanwhile.
    return problem_.in_place ? Held{outputs[0], copy} : Held{input, -1};
  }

  const ForestOutline& outline_;
  const Problem& problem_;
  const int position_;
  const std::vector<int>& ranks_;
  ProgramBuilder builder_;
  std::map<int, Gathered> gathered_from_;  // by position; empty unless messages are gathered
  const Flow* flow_ = nullptr;
  int number_ = 0;
};

/// Counts the traffic of `flows` blocks that take the same trees.
class TrafficCount {
 public:
  TrafficCount(const ForestOutline& outline, Summary& summary)
      : outline_(outline), summary_(summary) {}

  /// `behind`: messages in a row that follow once the root has the result.
  void Reduction(int number, uint64_t flows, int behind) {
    const Tree& tree = outline_.TreeAt(number);
    const TreeWalk& walk = outline_.WalkAt(number);
    for (int part = 0; part < tree.nodes(); ++part) {
      if (!tree.Has(part)) continue;
      const int position = outline_.PartAt(part).position;
      const auto children = static_cast<uint64_t>(walk.ChildCount(part));
      const bool at_root = part == tree.root;
      HostTraffic& host = summary_.hosts[static_cast<size_t>(position)];
      const uint64_t folds = std::max<uint64_t>(children, 1);
      host.read += flows * (outline_.PartAt(part).ranks.size() + folds - 1);
      host.written += flows * (folds - 1 + (at_root ? outline_.ResultsAt(position) : 1));
      host.received += flows * children;
      if (at_root) continue;
      host.read += flows;
      host.sent += flows;
      loads_.Add({.from_host = outline_.HostOfPart(part),
                  .to_host = outline_.HostOfPart(tree.parent[static_cast<size_t>(part)]),
                  .path = tree.PathOf(part),
                  .blocks = flows,
                  .earliest = walk.HeightOf(part),
                  .latest = walk.HeightOf(part),
                  .following = walk.DepthOf(part) - 1 + behind});
    }
  }

  /// `ahead`: messages in a row that precede the result at the root.
  void Broadcast(int number, bool copies, uint64_t flows, int ahead) {
    const Tree& tree = outline_.TreeAt(number);
    const TreeWalk& walk = outline_.WalkAt(number);
    for (int position = 0; position < tree.nodes(); ++position) {
      const auto children = static_cast<uint64_t>(walk.ChildCount(position));
      const uint64_t ranks = outline_.placement().RanksAt(position).size();
      const bool at_root = position == tree.root;
      HostTraffic& host = summary_.hosts[static_cast<size_t>(position)];
      host.read += flows * (children + (at_root && copies ? 1 : 0));
      host.sent += flows * children;
      if (!at_root || copies) host.written += flows * ranks;
      if (at_root) continue;
      host.received += flows;
      const int parent = tree.parent[static_cast<size_t>(position)];
      const int before = ahead + outline_.TurnOf(walk, parent, position);
      loads_.Add({.from_host = outline_.placement().HostAt(parent),
                  .to_host = host.host,
                  .path = tree.PathOf(position),
                  .blocks = flows,
                  .earliest = before,
                  .latest = before,
                  .following = walk.HeightOf(position)});
    }
  }

  std::vector<Load> TakeLoads() { return loads_.Take(); }

 private:
  const ForestOutline& outline_;
  Summary& summary_;
  LoadTable loads_;
};

ForestOutline::ForestOutline(std::string name, Problem problem, Forest forest, RouteTable routes)
    : Outline(std::move(name), std::move(problem), forest.pieces, std::move(routes)),
      forest_(std::move(forest)) {
  if (forest_.parts.empty()) forest_.parts = WholeHosts(placement());
  for (const Tree& tree : forest_.trees) walks_.emplace_back(tree);
  if (forest_.gathers_messages) FindGatheredTurns();
  parts_at_.resize(static_cast<size_t>(placement().hosts()));
  for (size_t part = 0; part < forest_.parts.size(); ++part) {
    parts_at_[static_cast<size_t>(forest_.parts[part].position)].push_back(static_cast<int>(part));
  }
}

void ForestOutline::FindGatheredTurns() {
  for (size_t i = 0; i < walks_.size(); ++i) {
    const Tree& tree = forest_.trees[i];
    for (int child = 0; child < tree.nodes(); ++child) {
      if (!tree.Has(child) || child == tree.root) continue;
      const int parent = tree.parent[static_cast<size_t>(child)];
      int& turn = gathered_[{parent, child}];
      turn = std::max(turn, walks_[i].DepthOf(parent));
    }
  }
}

HostProgram ForestOutline::Program(int position) const {
  return ProgramWriter(*this, position).Write();
}

Summary ForestOutline::Summarize() const {
  Summary summary;
  summary.pieces = pieces();
  for (int position = 0; position < placement().hosts(); ++position) {
    summary.hosts.push_back({.host = placement().HostAt(position)});
  }
  // Numbers of flows, by tree and by the height of the tree that the same flows take before or
  // after.
  std::map<std::pair<int, int>, uint64_t> reductions;
  std::map<std::tuple<int, bool, int>, uint64_t> broadcasts;  // and whether the root copies
  for (const Flow& flow : forest_.flows) {
    const int up = HeightOf(flow.reduce_tree);
    if (flow.reduce_tree >= 0) ++reductions[{flow.reduce_tree, HeightOf(flow.broadcast_tree)}];
    if (flow.broadcast_tree >= 0) ++broadcasts[{flow.broadcast_tree, flow.reduce_tree < 0, up}];
    summary.dependent_messages = std::max(
        summary.dependent_messages, HeightOf(flow.reduce_tree) + HeightOf(flow.broadcast_tree));
  }
  TrafficCount count(*this, summary);
  for (const auto& [key, flows] : reductions) count.Reduction(key.first, flows, key.second);
  for (const auto& [key, flows] : broadcasts) {
    const auto& [tree, copies, ahead] = key;
    count.Broadcast(tree, copies, flows, ahead);
  }
  summary.loads = count.TakeLoads();
  return summary;
}

}  // namespace

std::unique_ptr<Outline> MakeForestOutline(std::string name, Problem problem, Forest forest,
                                           RouteTable routes) {
  return std::make_unique<ForestOutline>(std::move(name), std::move(problem), std::move(forest),
                                         std::move(routes));
}

std::vector<Flow> FlowsByRank(const Problem& problem, const HostPlacement& placement, int pieces,
                              const std::vector<int>& tree_of_host) {
  const bool reduces = Reduces(problem.collective);
  std::vector<Flow> flows;
  flows.reserve(static_cast<size_t>(placement.ranks()) * static_cast<size_t>(pieces));
  for (int rank = 0; rank < placement.ranks(); ++rank) {
    const int tree = tree_of_host[static_cast<size_t>(placement.PositionOfRank(rank))];
    for (int piece = 0; piece < pieces; ++piece) {
      flows.push_back({.unit = rank,
                       .piece = piece,
                       .reduce_tree = reduces ? tree : -1,
                       .broadcast_tree = reduces ? -1 : tree});
    }
  }
  return flows;
}

Flow FlowOfPiece(Collective collective, int piece, int reduce_tree, int broadcast_tree, int start) {
  return {.unit = 0,
          .piece = piece,
          .reduce_tree = collective == Collective::kBroadcast ? -1 : reduce_tree,
          .broadcast_tree = collective == Collective::kReduce ? -1 : broadcast_tree,
          .start = start};
}

}  // namespace harmonaize
