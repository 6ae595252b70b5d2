#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/schedule/algorithms/tree.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

// Most algorithms for several hosts are sets of trees: each block of data is reduced up a tree to
// its root, or broadcast down a tree from its root, or both. A ring is a set of chains, halving and
// doubling a set of binomial trees. So an algorithm only names its trees, and the programs are
// generated from them here, once for all algorithms.

/// A participant of a reduction at one node of a tree: some ranks of one host.
struct Part {
  int position = 0;  ///< Position of the host in the HostPlacement.
  /// Ranks in the order in which they are reduced. May be empty where a result is only delivered:
  /// at a root with one child.
  std::vector<int> ranks;
};

/// The way of one block through the trees.
struct Flow {
  int unit = 0;  ///< The block is piece `piece` of unit `unit` (see Block).
  int piece = 0;
  int reduce_tree = -1;     ///< Towards the root, over the parts; -1 in broadcast and all-gather.
  int broadcast_tree = -1;  ///< From the root, over the positions; -1 in reduce, reduce-scatter.
  /// The turn in which it starts. It orders messages and delays nothing: blocks that follow each
  /// other through one tree have ascending turns.
  int start = 0;
};

struct Forest {
  int pieces = 1;
  std::vector<Tree> trees;
  /// The nodes of trees for reductions. Empty: one part for every host, with all its ranks, at the
  /// node of its position. Each rank is in one part of every tree.
  std::vector<Part> parts;
  /// Flows, one for every block that the collective moves: for each unit and piece of an
  /// all-reduce, a reduce or a broadcast (unit 0), and of every rank in an all-gather or a
  /// reduce-scatter. The trees' roots are where the collective has the data, or wants it, or
  /// (all-reduce) on the same host.
  std::vector<Flow> flows;
  /// Whether scratch memory is never used again, not even in a reduce-scatter.
  bool keeps_scratch = false;
  /// Whether the blocks of all broadcasts that a host passes on to another one wait until the last
  /// of them is there, and go in one turn: few messages instead of early ones. The farther down any
  /// tree an edge is, the later is its turn, so all trees must agree which of two edges comes
  /// first.
  bool gathers_messages = false;
};

/// Returns the outline of a forest. A host's ranks take part in one step: data that comes for a
/// reduction is reduced with all of them in one pass, data that comes with a broadcast is written
/// to all of them.
///
/// Partial results lie in scratch memory; complete ones go to outputs at once. Scratch memory is
/// used again only in a reduce-scatter, which needs the most of it. There a block may have to wait
/// until another has been sent on. It waits no longer than the height of the trees allows if all
/// flows start in one turn, or if each host has the same height in all trees; other forests set
/// keeps_scratch. So dependent_messages follows from the heights.
///
/// `routes`: the routes that the trees' paths stand for, if they stand for routes.
std::unique_ptr<Outline> MakeForestOutline(std::string name, Problem problem, Forest forest,
                                           RouteTable routes = {});

/// Returns the flows of an all-gather or a reduce-scatter: `pieces` for every rank, through tree
/// number tree_of_host[position of the rank's host].
std::vector<Flow> FlowsByRank(const Problem& problem, const HostPlacement& placement, int pieces,
                              const std::vector<int>& tree_of_host);

/// Returns the flow of piece `piece` of an all-reduce, a reduce or a broadcast, with the tree for
/// each direction that the collective has.
Flow FlowOfPiece(Collective collective, int piece, int reduce_tree, int broadcast_tree, int start);

}  // namespace harmonaize
