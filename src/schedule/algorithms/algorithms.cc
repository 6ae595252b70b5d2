#include "src/schedule/algorithms/algorithms.h"

#include <algorithm>

#include "src/schedule/algorithms/all_to_all.h"
#include "src/schedule/algorithms/circulant.h"
#include "src/schedule/algorithms/double_binary_tree.h"
#include "src/schedule/algorithms/gather_scatter.h"
#include "src/schedule/algorithms/halving_doubling.h"
#include "src/schedule/algorithms/hierarchical.h"
#include "src/schedule/algorithms/one_host.h"
#include "src/schedule/algorithms/packed_trees.h"
#include "src/schedule/algorithms/rank_order.h"
#include "src/schedule/algorithms/recursive_doubling.h"
#include "src/schedule/algorithms/ring.h"
#include "src/schedule/algorithms/rooted_tree.h"
#include "src/schedule/algorithms/shared_tree.h"

namespace harmonaize {
namespace {

using enum Collective;
using Options = AlgorithmOptions;

template <TreeShape kShape>
OutlineResult Trees(const Problem& problem, const Options& options) {
  return MakeRootedTrees(problem, kShape, options.order, options.pieces);
}

// Most hosts for which the shared tree is considered: a root's program has as many waits as hosts
// times ranks times hosts.
constexpr int kSharedTreeHosts = 32;

template <TreeShape kShape>
OutlineResult SharedTree(const Problem& problem, const Options& options) {
  return MakeSharedTree(problem, kShape, options.order, options.pieces);
}

OutlineResult RingAndBack(const Problem& problem, const Options& options) {
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, placement.PositionsOf(options.order));
  Ring back;
  for (size_t i = positions.size(); i-- > 0;) {
    back.order.push_back(placement.HostAt(positions[i]));
  }
  return MakeRings(problem, {{options.order}, back}, options.pieces);
}

OutlineResult Packed(const Problem& problem, const Options& options) {
  if (options.fabric == nullptr) return InvalidArgument("packed trees need to know the fabric");
  return MakePackedTrees(problem, *options.fabric, options.most_trees, options.pieces);
}

const std::vector<Algorithm>& Table() {
  static const std::vector<Algorithm> table = {
      {.name = "one-host",
       .describe = "one pass over the memory of ranks that share a host",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll,
                       kGather, kScatter},
       .in_rank_order = true,
       .make = [](const Problem& p, const Options&) { return MakeOneHost(p); }},
      {.name = "ring",
       .describe = "around the hosts; the least data, a turn for each host",
       .collectives = {kAllReduce, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeRings(p, {{o.order}}, o.pieces); }},
      {.name = "two-rings",
       .describe = "around the hosts in both directions, half of the data each",
       .collectives = {kAllReduce, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = RingAndBack},
      {.name = "halving-doubling",
       .describe = "recursive halving and doubling; log2 turns, best for powers of two",
       .collectives = {kAllReduce, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeHalvingDoubling(p, o.order, o.pieces); }},
      {.name = "recursive-doubling",
       .describe = "hosts exchange all they have; log2 turns in all, for small data",
       .collectives = {kAllReduce},
       .takes_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeRecursiveDoubling(p, o.order, o.pieces); }},
      {.name = "circulant",
       .describe = "log2 turns and the least data for any number of hosts",
       .collectives = {kAllReduce, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeCirculant(p, o.order, o.pieces); }},
      {.name = "star",
       .describe = "each host straight to each other, or the root to all; one turn",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = Trees<TreeShape::kStar>},
      {.name = "binomial-tree",
       .describe = "log2 turns for a single block",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = Trees<TreeShape::kBinomial>},
      {.name = "binary-tree",
       .describe = "pieces follow each other down a binary tree",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = Trees<TreeShape::kBinary>},
      {.name = "chain",
       .describe = "pieces follow each other along the hosts",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .takes_order = true,
       .make = Trees<TreeShape::kChain>},
      {.name = "double-binary-tree",
       .describe = "two binary trees with half of the data each; full bandwidth, log2 turns",
       .collectives = {kAllReduce, kReduce, kBroadcast},
       .takes_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeDoubleBinaryTree(p, o.order, o.pieces); }},
      {.name = "shared-star",
       .describe = "to the first host and back; the fewest messages for small blocks",
       .collectives = {kAllGather, kReduceScatter},
       .takes_order = true,
       .worth_hosts = kSharedTreeHosts,
       .make = SharedTree<TreeShape::kStar>},
      {.name = "shared-binomial-tree",
       .describe = "up one tree and down; as few messages, of which no host has many",
       .collectives = {kAllGather, kReduceScatter},
       .takes_order = true,
       .worth_hosts = kSharedTreeHosts,
       .make = SharedTree<TreeShape::kBinomial>},
      {.name = "hierarchical",
       .describe = "inside groups of hosts and between them; each group sends data on once",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .needs_groups = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeHierarchical(p, {o.groups}, o.pieces); }},
      {.name = "packed-trees",
       .describe = "trees packed into the fabric, so that its narrowest cut is full all the time",
       .collectives = {kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter},
       .needs_fabric = true,
       .make = Packed},
      {.name = "direct-all-to-all",
       .describe = "each block straight to its host, one receiver after the other",
       .collectives = {kAllToAll},
       .make = [](const Problem& p, const Options& o) { return MakeDirectAllToAll(p, o.pieces); }},
      {.name = "two-level-all-to-all",
       .describe = "between groups, each host sends for its group to hosts of its number",
       .collectives = {kAllToAll},
       .in_place = false,
       .needs_groups = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeTwoLevelAllToAll(p, o.groups, o.pieces); }},
      {.name = "direct-gather",
       .describe = "each block straight to the root's host, or from there",
       .collectives = {kGather, kScatter},
       .make = [](const Problem& p, const Options& o) { return MakeGatherScatter(p, o.pieces); }},
      {.name = "rank-order-chain",
       .describe = "reproducible: along the ranks in their order; for large messages",
       .collectives = {kAllReduce, kReduce, kReduceScatter},
       .in_rank_order = true,
       .make = [](const Problem& p, const Options& o) { return MakeRankOrderChain(p, o.pieces); }},
      {.name = "rank-order-exchange",
       .describe = "reproducible: all contributions to one host a piece; for small messages",
       .collectives = {kAllReduce, kReduce, kReduceScatter},
       .in_rank_order = true,
       .make = [](const Problem& p,
                  const Options& o) { return MakeRankOrderExchange(p, o.pieces); }},
  };
  return table;
}

}  // namespace

bool Algorithm::CarriesOut(Collective collective) const {
  return std::find(collectives.begin(), collectives.end(), collective) != collectives.end();
}

std::span<const Algorithm> Algorithms() {
  return Table();
}

const Algorithm* FindAlgorithm(std::string_view name) {
  for (const Algorithm& algorithm : Table()) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace harmonaize
