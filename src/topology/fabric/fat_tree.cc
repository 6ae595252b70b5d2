#include "src/topology/fabric/fat_tree.h"

#include <algorithm>

#include "src/topology/fabric/link_rate.h"

namespace harmonaize {
namespace {

/// Returns "a0", "a1", ... from number `first` on, for the prefix "a".
std::string Names(const char* prefix, int first, int count) {
  std::string names;
  for (int i = first; i < first + count; ++i) {
    names += fmt::format("{}\"{}{}\"", i == first ? "" : ", ", prefix, i);
  }
  return names;
}

class Writer {
 public:
  explicit Writer(const FatTree& tree) : tree_(tree) {}

  std::string Write() {
    const int leaves = (tree_.hosts + tree_.hosts_per_leaf - 1) / tree_.hosts_per_leaf;
    const int pods = (leaves + tree_.leaves_per_pod - 1) / tree_.leaves_per_pod;
    text_ =
        fmt::format("# A fat tree of {} hosts: {} leaves in {} pods.\n", tree_.hosts, leaves, pods);
    for (int leaf = 0; leaf < leaves; ++leaf) Leaf(leaf);
    for (int pod = 0; pod < pods; ++pod) {
      const int first = pod * tree_.leaves_per_pod;
      Pod(pod, first, std::min(tree_.leaves_per_pod, leaves - first));
    }
    if (pods > 1) Cores(pods);
    return text_;
  }

 private:
  void Switches(const std::string& names, const char* role) {
    text_ += fmt::format("\n[[switch]]\nname = [{}]\nrole = \"{}\"\n", names, role);
  }

  void Links(const std::string& from, const std::string& to, const std::string& rate, int count) {
    text_ += fmt::format("\n[[link]]\nfrom = [{}]\nto = [{}]\nrate = \"{}\"\nlatency_us = {:.3f}\n",
                         from, to, rate, tree_.latency_us);
    if (count > 1) text_ += fmt::format("count = {}\n", count);
  }

  void Leaf(int leaf) {
    const int first = leaf * tree_.hosts_per_leaf;
    const std::string hosts =
        Names("host", first, std::min(tree_.hosts_per_leaf, tree_.hosts - first));
    text_ += fmt::format("\n[[host]]\nname = [{}]\nrack = \"rack{}\"\n", hosts, leaf);
    text_ += fmt::format("\n[[switch]]\nname = \"leaf{}\"\nrack = \"rack{}\"\n", leaf, leaf);
    Links(hosts, Names("leaf", leaf, 1), tree_.host_rate, tree_.nics);
  }

  void Pod(int pod, int first_leaf, int leaves) {
    const std::string spines = Names("spine", pod * tree_.spines_per_pod, tree_.spines_per_pod);
    Switches(spines, "spine");
    Links(Names("leaf", first_leaf, leaves), spines, tree_.uplink_rate, 1);
  }

  void Cores(int pods) {
    for (int plane = 0; plane < tree_.spines_per_pod; ++plane) {
      const std::string cores = Names("core", plane * tree_.cores_per_spine, tree_.cores_per_spine);
      Switches(cores, "core");
      std::string spines;
      for (int pod = 0; pod < pods; ++pod) {
        spines += (pod == 0 ? "" : ", ") + Names("spine", pod * tree_.spines_per_pod + plane, 1);
      }
      Links(spines, cores, tree_.uplink_rate, 1);
    }
  }

  const FatTree& tree_;
  std::string text_;
};

}  // namespace

Result<std::string> FatTreeFile(const FatTree& tree) {
  constexpr int kMost = 1 << 16;
  for (const int number : {tree.hosts, tree.hosts_per_leaf, tree.leaves_per_pod,
                           tree.spines_per_pod, tree.cores_per_spine, tree.nics}) {
    if (number < 1 || number > kMost) {
      return InvalidArgument("a fat tree's numbers are from 1 to {}; one is {}", kMost, number);
    }
  }
  for (const std::string& rate : {tree.host_rate, tree.uplink_rate}) {
    HZ_RETURN_IF_ERROR(ParseLinkRate(rate).status());
  }
  return Writer(tree).Write();
}

}  // namespace harmonaize
