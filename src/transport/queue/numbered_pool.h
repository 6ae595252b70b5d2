#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "src/base/intrusive_list.h"

namespace harmonaize::transport {

/// Objects that are known by a number, which they have as `id`, and never move in memory. An object
/// that rests may be used again for another number. So the pool allocates nothing for as many
/// objects at a time as it has seen. An Item is a ListNode, which the pool uses while the item
/// rests.
template <class Item>
class NumberedPool {
 public:
  /// Returns the item of this number; null if there is none.
  Item* Find(uint64_t id) {
    const auto found = items_.find(id);
    return found == items_.end() ? nullptr : &found->second;
  }

  /// Returns a new item of this number, which no item has. It may be one that rests, if
  /// `may_forget` returns true of it.
  template <class MayForget>
  Item* Add(uint64_t id, MayForget may_forget) {
    Item* item = resting_.PopFront();
    if (item != nullptr && may_forget(*item)) {
      auto node = items_.extract(item->id);
      node.key() = id;
      items_.insert(std::move(node));
    } else {
      // Others behind this one may be forgotten earlier.
      if (item != nullptr) resting_.PushBack(item);
      item = &items_.try_emplace(id).first->second;
    }
    item->id = id;
    return item;
  }

  /// Notes that the item is not in use until its ListNode is unlinked.
  void Rest(Item* item) { resting_.PushBack(item); }

  /// Calls the function for all items.
  template <class Function>
  void ForEach(Function function) {
    for (auto& [id, item] : items_) function(item);
  }
  template <class Function>
  void ForEach(Function function) const {
    for (const auto& [id, item] : items_) function(item);
  }

 private:
  std::map<uint64_t, Item> items_;
  IntrusiveList<Item> resting_;  // the one that rests longest is in front
};

}  // namespace harmonaize::transport
