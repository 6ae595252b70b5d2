#include "src/schedule/algorithms/hierarchical.h"

#include <algorithm>
#include <utility>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {
namespace {

/// The groups by positions.
class Groups {
 public:
  static Result<Groups> Make(const HostPlacement& placement, const Hierarchy& hierarchy) {
    HZ_ASSIGN_OR_RETURN(std::vector<std::vector<int>> members,
                        placement.PositionsOfGroups(hierarchy.groups));
    Groups groups(hierarchy);
    groups.members_ = std::move(members);
    groups.place_.resize(static_cast<size_t>(placement.hosts()));
    for (int group = 0; group < groups.count(); ++group) {
      groups.largest_ = std::max(groups.largest_, groups.Size(group));
      for (int number = 0; number < groups.Size(group); ++number) {
        groups.place_[static_cast<size_t>(groups.Member(group, number))] = {group, number};
      }
    }
    return groups;
  }

  int count() const { return static_cast<int>(members_.size()); }
  int largest() const { return largest_; }
  int Size(int group) const {
    return static_cast<int>(members_[static_cast<size_t>(group)].size());
  }
  int Member(int group, int number) const {
    const std::vector<int>& members = members_[static_cast<size_t>(group)];
    return members[static_cast<size_t>(number) % members.size()];
  }

  /// Returns the tree to `root`. In the other groups, the hosts number `salt` (modulo the size) are
  /// the gateways.
  Tree TreeTo(int root, int salt) const {
    Tree tree{root, std::vector<int>(place_.size(), -1)};
    const auto [home, number_at_home] = place_[static_cast<size_t>(root)];
    std::vector<int> gateways;  // by group, from the root's on
    for (int i = 0; i < count(); ++i) {
      const int group = (home + i) % count();
      const auto& members = members_[static_cast<size_t>(group)];
      const int first = i == 0 ? number_at_home : salt % static_cast<int>(members.size());
      const std::vector<int> order = Rotated(members, first);
      for (size_t place = 1; place < order.size(); ++place) {
        const int parent = ParentPlace(within_, static_cast<int>(place));
        tree.parent[static_cast<size_t>(order[place])] = order[static_cast<size_t>(parent)];
      }
      gateways.push_back(order[0]);
    }
    for (int i = 1; i < count(); ++i) {
      tree.parent[static_cast<size_t>(gateways[static_cast<size_t>(i)])] =
          gateways[static_cast<size_t>(ParentPlace(across_, i))];
    }
    return tree;
  }

 private:
  struct Place {
    int group = 0;
    int number = 0;
  };

  explicit Groups(const Hierarchy& hierarchy)
      : within_(hierarchy.within), across_(hierarchy.across) {}

  TreeShape within_;
  TreeShape across_;
  std::vector<std::vector<int>> members_;  // positions
  std::vector<Place> place_;               // by position
  int largest_ = 0;
};

Forest ByRank(const Problem& problem, const HostPlacement& placement, const Groups& groups,
              int pieces) {
  Forest forest;
  forest.pieces = pieces;
  std::vector<int> tree_of_host(static_cast<size_t>(placement.hosts()));
  for (int group = 0, salt = 0; salt < placement.hosts(); ++group) {
    const int size = groups.Size(group);
    for (int number = 0; number < size; ++number, ++salt) {
      const int root = groups.Member(group, number);
      tree_of_host[static_cast<size_t>(root)] = static_cast<int>(forest.trees.size());
      forest.trees.push_back(groups.TreeTo(root, salt));
    }
  }
  forest.flows = FlowsByRank(problem, placement, pieces, tree_of_host);
  return forest;
}

Forest AllReduce(const Groups& groups, int pieces) {
  Forest forest;
  const int trees = groups.count() * groups.largest();
  forest.pieces = pieces * trees;
  for (int tree = 0; tree < trees; ++tree) {
    const int number = tree / groups.count();
    forest.trees.push_back(groups.TreeTo(groups.Member(tree % groups.count(), number), number));
  }
  for (int piece = 0; piece < forest.pieces; ++piece) {
    forest.flows.push_back({0, piece, piece % trees, piece % trees, 0});
  }
  return forest;
}

/// Returns the forest of a collective with a root: every piece goes through another host of each
/// group, but to the same root.
Forest Rooted(const Problem& problem, const HostPlacement& placement, const Groups& groups,
              int pieces) {
  Forest forest;
  const int trees = groups.largest();
  forest.pieces = pieces * trees;
  for (int tree = 0; tree < trees; ++tree) {
    forest.trees.push_back(groups.TreeTo(placement.PositionOfRank(problem.root), tree));
  }
  for (int piece = 0; piece < forest.pieces; ++piece) {
    const int tree = piece % trees;
    forest.flows.push_back(FlowOfPiece(problem.collective, piece, tree, tree, piece / trees));
  }
  return forest;
}

}  // namespace

OutlineResult MakeHierarchical(const Problem& problem, const Hierarchy& hierarchy, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const Groups groups, Groups::Make(placement, hierarchy));
  int64_t per_unit = pieces;
  if (problem.collective == Collective::kAllReduce) per_unit *= groups.count();
  if (problem.collective == Collective::kAllReduce || HasRoot(problem.collective)) {
    per_unit *= groups.largest();
  }
  HZ_RETURN_IF_ERROR(CheckPieces(problem, per_unit));
  const auto outline = [&](Forest forest) {
    return MakeForestOutline("hierarchical", problem, std::move(forest));
  };
  switch (problem.collective) {
    case Collective::kAllReduce: return outline(AllReduce(groups, pieces));
    case Collective::kAllGather:
    case Collective::kReduceScatter: return outline(ByRank(problem, placement, groups, pieces));
    case Collective::kBroadcast:
    case Collective::kReduce: return outline(Rooted(problem, placement, groups, pieces));
    default: return NotCarriedOut("the hierarchical algorithm", problem.collective);
  }
}

}  // namespace harmonaize
