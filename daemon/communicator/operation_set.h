#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace harmonaize::daemon {

/// Operations of one communicator that are at the same stage, in no order. An operation is in one
/// set at most, and knows its place there, so that it is taken out in constant time: a tenant may
/// have tens of thousands.
template <typename Operation>
class OperationSet {
 public:
  /// Sees to it that the next Add does not throw.
  void MakeRoom() {
    if (operations_.size() < operations_.capacity()) return;
    operations_.reserve(std::max<size_t>(8, 2 * operations_.size()));
  }
  void Add(Operation* operation) {
    operation->place_in_set = operations_.size();
    operations_.push_back(operation);
  }
  /// Requires: the operation is in this set.
  void Remove(Operation* operation) {
    Operation* const last = operations_.back();
    operations_[operation->place_in_set] = last;
    last->place_in_set = operation->place_in_set;
    operations_.pop_back();
  }
  /// Empties the set, and returns what was in it.
  std::vector<Operation*> TakeAll() { return std::exchange(operations_, {}); }

  bool empty() const { return operations_.empty(); }
  auto begin() const { return operations_.begin(); }
  auto end() const { return operations_.end(); }

 private:
  std::vector<Operation*> operations_;
};

}  // namespace harmonaize::daemon
