#include "src/topology/host/host.h"

#include <hwloc.h>
#include <hwloc/distances.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <type_traits>

#include "src/base/log.h"
#include "src/base/processors.h"

namespace harmonaize {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

Result<Topology> NewTopology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return ErrnoError(errno, "hwloc_topology_init");
  return Topology(topology);
}

/// Returns all objects of a type, in hwloc's order.
std::vector<hwloc_obj_t> ObjectsOf(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    objects.push_back(object);
  }
  return objects;
}

bool Has(hwloc_const_cpuset_t processors, int number) {
  return hwloc_bitmap_isset(processors, static_cast<unsigned>(number)) != 0;
}

void ReadProcessors(hwloc_topology_t topology, Host* host) {
  for (const hwloc_obj_t object : ObjectsOf(topology, HWLOC_OBJ_PU)) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, object);
    // Where hwloc knows no cores, each processor is taken for one.
    const unsigned index = core == nullptr ? object->logical_index : core->logical_index;
    host->processors.push_back(
        {.number = static_cast<int>(object->os_index), .core = static_cast<int>(index)});
  }
  std::sort(host->processors.begin(), host->processors.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  std::map<int, int> cores;  // renumbered without gaps
  for (HostProcessor& processor : host->processors) {
    processor.core = cores.emplace(processor.core, static_cast<int>(cores.size())).first->second;
  }
  host->cores = static_cast<int>(cores.size());
}

// Reads the memory nodes. Several may be near one processor (high bandwidth memory beside ordinary
// memory): hwloc lists the ordinary one first, and that is the processor's own.
void ReadNodes(hwloc_topology_t topology, Host* host) {
  std::vector<hwloc_obj_t> objects = ObjectsOf(topology, HWLOC_OBJ_NUMANODE);
  std::map<int, int> node_of;  // by processor, the kernel's numbers
  for (const hwloc_obj_t object : objects) {
    for (const HostProcessor& processor : host->processors) {
      if (Has(object->cpuset, processor.number)) {
        node_of.emplace(processor.number, static_cast<int>(object->os_index));
      }
    }
  }
  std::sort(objects.begin(), objects.end(),
            [](hwloc_obj_t a, hwloc_obj_t b) { return a->os_index < b->os_index; });
  for (const hwloc_obj_t object : objects) {
    HostNode node;
    node.number = static_cast<int>(object->os_index);
    node.memory_bytes = object->attr->numanode.local_memory;
    for (HostProcessor& processor : host->processors) {
      const auto own = node_of.find(processor.number);
      if (own == node_of.end() || own->second != node.number) continue;
      processor.node = static_cast<int>(host->nodes.size());
      node.processors.push_back(processor.number);
    }
    host->nodes.push_back(std::move(node));
  }
}

size_t CoresUnder(hwloc_topology_t topology, hwloc_obj_t object) {
  const int cores =
      hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
  return static_cast<size_t>(std::max(cores, 1));
}

void ReadCaches(hwloc_topology_t topology, Host* host) {
  const std::vector<hwloc_obj_t> second = ObjectsOf(topology, HWLOC_OBJ_L2CACHE);
  if (!second.empty() && second.front()->attr->cache.size > 0) {
    host->core_cache_bytes =
        second.front()->attr->cache.size / CoresUnder(topology, second.front());
  }
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    const std::vector<hwloc_obj_t> caches = ObjectsOf(topology, type);
    if (caches.empty() || caches.front()->attr->cache.size == 0) continue;
    host->last_level_cache_bytes = caches.front()->attr->cache.size;
    host->last_level_caches = static_cast<int>(caches.size());
    return;
  }
}

void ReadDistances(hwloc_topology_t topology, Host* host) {
  unsigned count = 1;
  hwloc_distances_s* found = nullptr;
  const int failed = hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &found,
                                                 HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
  if (failed != 0 || count == 0) return;
  const size_t nodes = host->nodes.size();
  std::vector<std::vector<uint64_t>> distances(nodes, std::vector<uint64_t>(nodes, 0));
  for (unsigned i = 0; i < found->nbobjs; ++i) {
    for (unsigned j = 0; j < found->nbobjs; ++j) {
      if (found->objs[i] == nullptr || found->objs[j] == nullptr) continue;
      const int from = host->IndexOfNode(static_cast<int>(found->objs[i]->os_index));
      const int to = host->IndexOfNode(static_cast<int>(found->objs[j]->os_index));
      if (from < 0 || to < 0) continue;
      distances[static_cast<size_t>(from)][static_cast<size_t>(to)] =
          found->values[i * found->nbobjs + j];
    }
  }
  hwloc_distances_release(topology, found);
  const auto is_whole = [](const std::vector<uint64_t>& row) {
    return std::find(row.begin(), row.end(), 0) == row.end();
  };
  if (std::all_of(distances.begin(), distances.end(), is_whole)) {
    host->node_distances = std::move(distances);
  }
}

Result<Host> Load(hwloc_topology_t topology) {
  if (hwloc_topology_load(topology) != 0) return ErrnoError(errno, "hwloc_topology_load");
  Host host;
  ReadProcessors(topology, &host);
  ReadNodes(topology, &host);
  ReadCaches(topology, &host);
  ReadDistances(topology, &host);
  if (host.processors.empty() || host.nodes.empty()) {
    return SystemError("hwloc finds no processor, or no memory, that this process may use");
  }
  return host;
}

/// Returns a host of which nothing more is known.
Host PlainHost() {
  Host host;
  host.nodes.push_back({.number = 0, .memory_bytes = 0, .processors = UsableProcessors()});
  for (const int number : host.nodes.front().processors) {
    host.processors.push_back(
        {.number = number, .core = static_cast<int>(host.processors.size()), .node = 0});
  }
  host.cores = static_cast<int>(host.processors.size());
  return host;
}

}  // namespace

int Host::NodeOfProcessor(int number) const {
  for (const HostProcessor& processor : processors) {
    if (processor.number == number) return processor.node;
  }
  return -1;
}

int Host::IndexOfNode(int number) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].number == number) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> Host::NodesWithProcessors() const {
  std::vector<int> indices;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].processors.empty()) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

Result<Host> DetectHost() {
  HZ_ASSIGN_OR_RETURN(Topology topology, NewTopology());
  // The affinity counts, too: it is what a container or taskset leaves to the process. And
  // detection must not move the threads of the process about.
  hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
                                               HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING |
                                               HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  return Load(topology.get());
}

const Host& ThisHost() {
  static const Host host = [] {
    Result<Host> detected = DetectHost();
    if (detected.ok()) return std::move(*detected);
    Log(LogLevel::kWarning, kLogInit, "what this host is made of is not known: {}",
        detected.status().message());
    return PlainHost();
  }();
  return host;
}

Result<Host> HostFromSynthetic(const std::string& description) {
  HZ_ASSIGN_OR_RETURN(Topology topology, NewTopology());
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0) {
    return InvalidArgument("'{}' is no synthetic description of hwloc's", description);
  }
  return Load(topology.get());
}

Result<Host> HostFromXml(const std::string& xml) {
  HZ_ASSIGN_OR_RETURN(Topology topology, NewTopology());
  // hwloc counts the closing zero, and reads most of the text only when it loads.
  const int size = static_cast<int>(xml.size() + 1);
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), size) == 0) {
    Result<Host> host = Load(topology.get());
    if (host.ok()) return host;
  }
  return InvalidArgument("not a description of a host by hwloc (lstopo FILE.xml writes one)");
}

}  // namespace harmonaize
