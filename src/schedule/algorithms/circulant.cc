#include "src/schedule/algorithms/circulant.h"

#include "src/schedule/algorithms/trees_to_hosts.h"

namespace harmonaize {
namespace {

/// By distance d > 0 from the root, how far data travel in the turn in which they leave from there:
/// the largest of the distances h/2, h/4, ..., 1 (rounded up) that does not lead past the root.
std::vector<int> Skips(int hosts) {
  std::vector<int> skips(static_cast<size_t>(hosts), 1);
  int beyond = hosts;
  while (beyond > 1) {
    const int skip = (beyond + 1) / 2;
    for (int distance = skip; distance < beyond; ++distance) {
      skips[static_cast<size_t>(distance)] = skip;
    }
    beyond = skip;
  }
  return skips;
}

Tree TreeTo(const std::vector<int>& order, int root) {
  const int hosts = static_cast<int>(order.size());
  const std::vector<int> skips = Skips(hosts);
  const auto at = [&](int place) {
    return order[static_cast<size_t>((place % hosts + hosts) % hosts)];
  };
  Tree tree{at(root), std::vector<int>(order.size(), -1)};
  for (int distance = 1; distance < hosts; ++distance) {
    tree.parent[static_cast<size_t>(at(root - distance))] =
        at(root - distance + skips[static_cast<size_t>(distance)]);
  }
  return tree;
}

}  // namespace

OutlineResult MakeCirculant(const Problem& problem, const std::vector<int>& order, int pieces) {
  return MakeTreesToHosts(problem, order, pieces,
                          {.name = "circulant",
                           .in_sentence = "the circulant algorithm",
                           .all_reduce_roots = [](int hosts) { return hosts; },
                           .tree_to = TreeTo});
}

}  // namespace harmonaize
