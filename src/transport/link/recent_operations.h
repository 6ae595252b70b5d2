#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/transport/message.h"

namespace harmonaize::transport {

/// Remembers operations of peers, the last ones that were added. It keeps two generations, each a
/// hash table in one piece of memory, and forgets the older one when the newer one is full: nothing
/// that it keeps lies between what others allocate and free. Thread: one.
class RecentOperations {
 public:
  /// Operations that are remembered at least; twice as many at most. A table takes 8 MiB then.
  static constexpr size_t kRemembered = size_t{256} << 10;

  bool Contains(PeerId peer, uint64_t operation) const {
    const Entry entry{peer, operation};
    return newer_.Contains(entry) || older_.Contains(entry);
  }
  /// Requires: `peer` is not 0.
  void Add(PeerId peer, uint64_t operation) {
    if (newer_.Contains({peer, operation})) return;
    if (newer_.size() >= kRemembered) older_ = std::exchange(newer_, Table());
    newer_.Add({peer, operation});
  }

 private:
  struct Entry {
    PeerId peer = 0;  // 0: the place is free
    uint64_t operation = 0;
    bool operator==(const Entry&) const = default;
  };

  /// Entries in the order of their hashes, each at the first free place from its own on.
  class Table {
   public:
    size_t size() const { return size_; }
    bool Contains(const Entry& entry) const {
      return size_ > 0 && places_[PlaceOf(entry)] == entry;
    }
    void Add(const Entry& entry) {
      if (2 * (size_ + 1) > places_.size()) Grow();
      places_[PlaceOf(entry)] = entry;
      ++size_;
    }

   private:
    static constexpr size_t kFirstPlaces = 64;  // a power of two

    // The place of the entry, or the free one where it belongs.
    size_t PlaceOf(const Entry& entry) const {
      // Operations' numbers are spread over all numbers already.
      size_t place = entry.operation ^ (entry.peer * 0x9e3779b97f4a7c15u);
      while (true) {
        place &= places_.size() - 1;
        if (places_[place].peer == 0 || places_[place] == entry) return place;
        ++place;
      }
    }
    void Grow() {
      std::vector<Entry> grown(std::max(kFirstPlaces, 2 * places_.size()));
      std::swap(places_, grown);
      for (const Entry& entry : grown) {
        if (entry.peer != 0) places_[PlaceOf(entry)] = entry;
      }
    }

    std::vector<Entry> places_;
    size_t size_ = 0;
  };

  Table newer_;
  Table older_;
};

}  // namespace harmonaize::transport
