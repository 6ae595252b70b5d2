#include "src/schedule/algorithms/halving_doubling.h"

#include <bit>

#include "src/schedule/algorithms/trees_to_hosts.h"

namespace harmonaize {
namespace {

/// Returns how many of the hosts take part: the largest power of two.
int CoreOf(int hosts) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
}

/// Returns the tree of the reduce-scatter for the root r. The host at place i of the 2^k gives its
/// part away in the turn of the highest bit in which i and r differ, to the host that differs from
/// it in this bit.
Tree TreeTo(const std::vector<int>& order, int root) {
  const int hosts = static_cast<int>(order.size());
  const int core = CoreOf(hosts);
  const int core_root = root % core;
  Tree tree{order[static_cast<size_t>(root)], std::vector<int>(order.size(), -1)};
  for (int place = 0; place < hosts; ++place) {
    if (place == root) continue;
    int parent = place - core;  // of a host that does not take part
    if (place == core_root) {
      parent = root;
    } else if (place < core) {
      parent = place ^ static_cast<int>(std::bit_floor(static_cast<unsigned>(place ^ core_root)));
    }
    tree.parent[static_cast<size_t>(order[static_cast<size_t>(place)])] =
        order[static_cast<size_t>(parent)];
  }
  return tree;
}

}  // namespace

OutlineResult MakeHalvingDoubling(const Problem& problem, const std::vector<int>& order,
                                  int pieces) {
  return MakeTreesToHosts(problem, order, pieces,
                          {.name = "halving-doubling",
                           .in_sentence = "halving and doubling",
                           .all_reduce_roots = CoreOf,
                           .tree_to = TreeTo});
}

}  // namespace harmonaize
