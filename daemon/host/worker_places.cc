#include "daemon/host/worker_places.h"

#include <algorithm>
#include <map>

namespace harmonaize::daemon {
namespace {

/// Returns the processors of a node: one of each core first, then the second of each, and so on.
std::vector<int> CoresFirst(const Host& host, int node) {
  std::map<int, int> seen;                        // by core: processors so far
  std::vector<std::pair<int, int>> by_turn_then;  // (how many of its core came before, number)
  for (const HostProcessor& processor : host.processors) {
    if (processor.node == node) by_turn_then.emplace_back(seen[processor.core]++, processor.number);
  }
  std::sort(by_turn_then.begin(), by_turn_then.end());
  std::vector<int> numbers;
  for (const auto& [turn, number] : by_turn_then) numbers.push_back(number);
  return numbers;
}

/// Deals workers to nodes: each to the node that has the fewest for its number of processors.
class Dealer {
 public:
  Dealer(const Host& host, std::vector<int> nodes) : nodes_(std::move(nodes)) {
    for (const int node : nodes_) {
      weights_.push_back(host.nodes[static_cast<size_t>(node)].processors.size());
    }
    dealt_.resize(nodes_.size());
  }

  struct Deal {
    int node;
    size_t turn;  ///< Number among this node's workers, from 0 on.
  };
  Deal Next() {
    size_t best = 0;
    for (size_t i = 1; i < nodes_.size(); ++i) {
      // dealt / weight compared without division.
      if (dealt_[i] * weights_[best] < dealt_[best] * weights_[i]) best = i;
    }
    return {nodes_[best], dealt_[best]++};
  }

 private:
  std::vector<int> nodes_;
  std::vector<size_t> weights_;
  std::vector<size_t> dealt_;
};

}  // namespace

std::vector<WorkerPlace> PlaceWorkers(const Host& host, int workers, const std::string& placement) {
  std::vector<WorkerPlace> places(static_cast<size_t>(workers));
  const std::vector<int> nodes = host.NodesWithProcessors();
  const bool free = placement == kPlaceFreely || (placement == kPlaceByHost && nodes.size() < 2);
  if (free || nodes.empty()) return places;
  Dealer dealer(host, nodes);
  for (WorkerPlace& place : places) {
    const auto [node, turn] = dealer.Next();
    place.node = host.nodes[static_cast<size_t>(node)].number;
    if (placement == kPlaceOnProcessors) {
      const std::vector<int> processors = CoresFirst(host, node);
      place.processors = {processors[turn % processors.size()]};
    } else {
      place.processors = host.nodes[static_cast<size_t>(node)].processors;
    }
  }
  return places;
}

std::vector<WorkerPlace> PlaceWorkersOn(const Host& host, int workers,
                                        const std::vector<int64_t>& processors) {
  std::vector<WorkerPlace> places(static_cast<size_t>(workers));
  for (size_t i = 0; i < places.size(); ++i) {
    const auto processor = static_cast<int>(processors[i % processors.size()]);
    const int node = host.NodeOfProcessor(processor);
    places[i].processors = {processor};
    if (node >= 0) places[i].node = host.nodes[static_cast<size_t>(node)].number;
  }
  return places;
}

}  // namespace harmonaize::daemon
