#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/intrusive_list.h"

namespace harmonaize::transport {

/// What SlabPool knows of its items.
struct SlabItem : ListNode {
  uint32_t index = 0;
  /// Its owner counts the uses of the item here, so that an index with a generation names one.
  uint32_t generation = 0;
};

/// A pool of T, which is a SlabItem. Items are allocated in
/// slabs, and a slab goes back to the allocator when none of it is in use and there are enough free
/// items besides: a burst does not leave its memory behind. Thread: one.
template <typename T>
class SlabPool {
 public:
  /// Returns an item in the state in which it was given back, or a new one.
  T* Take() {
    if (free_.empty()) AddSlab();
    T* const item = free_.PopFront();
    --free_count_;
    ++SlabOf(item)->in_use;
    return item;
  }
  /// Requires: the item was taken, and is in no list.
  void GiveBack(T* item) {
    // First, so that of many that were needed once few are used again.
    free_.PushFront(item);
    ++free_count_;
    Slab* const slab = SlabOf(item);
    if (--slab->in_use == 0 && free_count_ >= kKept + kSlabItems) RemoveSlab(item->index);
  }
  /// Returns the item with this index, taken or free; nullptr if there is none.
  T* At(uint32_t index) const {
    const size_t slab = index / kSlabItems;
    if (slab >= slabs_.size() || slabs_[slab] == nullptr) return nullptr;
    return &slabs_[slab]->items[index % kSlabItems];
  }

  /// Calls `call` with every item, taken or free. New items may be added meanwhile.
  template <typename Call>
  void ForEach(Call&& call) {
    for (size_t slab = 0; slab < slabs_.size(); ++slab) {
      for (size_t i = 0; i < kSlabItems && slabs_[slab] != nullptr; ++i) {
        call(slabs_[slab]->items[i]);
      }
    }
  }

  /// Items of a slab.
  static constexpr size_t kSlabItems = 256;
  /// Free items that are kept at least.
  static constexpr size_t kKept = 4096;

 private:
  struct Slab {
    std::array<T, kSlabItems> items;
    size_t in_use = 0;
  };

  Slab* SlabOf(const T* item) const { return slabs_[item->index / kSlabItems].get(); }

  void AddSlab() {
    size_t place = 0;
    while (place < slabs_.size() && slabs_[place] != nullptr) ++place;
    // First what may throw.
    if (place == slabs_.size()) slabs_.emplace_back();
    slabs_[place] = std::make_unique<Slab>();
    for (size_t i = 0; i < kSlabItems; ++i) {
      T& item = slabs_[place]->items[i];
      item.index = static_cast<uint32_t>(place * kSlabItems + i);
      item.generation = generation_;
      free_.PushBack(&item);
    }
    free_count_ += kSlabItems;
  }

  void RemoveSlab(uint32_t index) {
    std::unique_ptr<Slab>& slab = slabs_[index / kSlabItems];
    for (const T& item : slab->items) {
      // A later item with this index must not be taken for this one.
      generation_ = std::max(generation_, item.generation);
    }
    slab.reset();  // its items leave the list
    free_count_ -= kSlabItems;
  }

  std::vector<std::unique_ptr<Slab>> slabs_;  // nullptr: was removed
  IntrusiveList<T> free_;
  size_t free_count_ = 0;
  uint32_t generation_ = 0;  // of new items
};

}  // namespace harmonaize::transport
