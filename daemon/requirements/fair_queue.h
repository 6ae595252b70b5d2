#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace harmonaize::daemon {

/// Things of many tenants that wait for their turn: the tenants take turns, so that none waits for
/// all that another one has there. What waits already is not added again. Thread: one.
template <typename Item>
class FairQueue {
 public:
  void Add(uint32_t tenant, const Item& item) {
    if (!waiting_.emplace(tenant, item).second) return;
    std::deque<Item>& items = by_tenant_[tenant];
    if (items.empty()) turns_.push_back(tenant);
    items.push_back(item);
  }

  /// Takes the next one out, with its tenant; nullopt if there is none.
  std::optional<std::pair<uint32_t, Item>> Next() {
    if (turns_.empty()) return std::nullopt;
    const uint32_t tenant = turns_.front();
    turns_.pop_front();
    const auto items = by_tenant_.find(tenant);
    std::pair<uint32_t, Item> next(tenant, items->second.front());
    items->second.pop_front();
    if (items->second.empty()) {
      by_tenant_.erase(items);
    } else {
      turns_.push_back(tenant);
    }
    waiting_.erase(next);
    return next;
  }

  bool empty() const { return turns_.empty(); }

 private:
  std::set<std::pair<uint32_t, Item>> waiting_;
  std::map<uint32_t, std::deque<Item>> by_tenant_;  // none is empty
  std::deque<uint32_t> turns_;                      // tenants of by_tenant_
};

}  // namespace harmonaize::daemon
