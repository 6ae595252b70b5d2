#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace harmonaize::daemon {

/// The order in which sends and receives of a communicator have the lanes in which their ranks copy
/// private buffers (SliceLane): a rank sends one at a time, and receives one at a time.
///
/// Each lane is a queue. An item enters all lanes that it needs at the same time, and has its turn
/// when it is the first in all of them. So no circle of items can wait for each other: of any of
/// them, the one that entered first is before the others in every lane. Thread: engine.
template <typename Item>
class PairLanes {
 public:
  /// A rank, and whether it sends.
  using Lane = std::pair<int, bool>;

  void Enter(const Item& item, std::span<const Lane> lanes) {
    for (const Lane& lane : lanes) queues_[lane].push_back(item);
  }
  /// Returns whether the item has its turn. Requires: it has entered these lanes, and no others.
  bool IsFirst(const Item& item, std::span<const Lane> lanes) const {
    return std::all_of(lanes.begin(), lanes.end(), [&](const Lane& lane) {
      const auto queue = queues_.find(lane);
      return queue != queues_.end() && queue->second.front() == item;
    });
  }
  /// Removes an item that has its turn from its lanes; does nothing for others. Returns the items
  /// that are the first in one of these lanes now.
  std::vector<Item> Leave(const Item& item, std::span<const Lane> lanes) {
    std::vector<Item> next;
    if (!IsFirst(item, lanes)) return next;
    for (const Lane& lane : lanes) {
      const auto queue = queues_.find(lane);
      queue->second.pop_front();
      if (queue->second.empty()) {
        queues_.erase(queue);
      } else {
        next.push_back(queue->second.front());
      }
    }
    return next;
  }
  void Clear() { queues_.clear(); }
  bool empty() const { return queues_.empty(); }

 private:
  std::map<Lane, std::list<Item>> queues_;  // none of them is empty
};

}  // namespace harmonaize::daemon
