#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/communicator/matched_operation.h"

namespace harmonaize::daemon {

/// Collectives of one communicator that are at the same stage, by their sequence numbers. A tenant
/// may have tens of thousands. Thread: engine.
class OperationsBySequence {
 public:
  /// Sees to it that the next Add does not throw.
  void MakeRoom() {
    if (!spare_.empty()) return;
    spare_.reserve(kMostSpare);
    std::map<uint64_t, MatchedOperation*> made{{0, nullptr}};
    spare_.push_back(made.extract(made.begin()));
  }
  /// Requires: MakeRoom was called before, and no operation of this number is here.
  void Add(MatchedOperation* operation) {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = operation->sequence;
    node.mapped() = operation;
    operations_.insert(std::move(node));
  }
  /// Removes and returns the operation of this number; nullptr if it is not here.
  MatchedOperation* Take(uint64_t sequence) {
    auto node = operations_.extract(sequence);
    if (node.empty()) return nullptr;
    MatchedOperation* const operation = node.mapped();
    if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(node));
    return operation;
  }
  /// Returns the operation of this number; nullptr if it is not here.
  MatchedOperation* Find(uint64_t sequence) const {
    const auto found = operations_.find(sequence);
    return found == operations_.end() ? nullptr : found->second;
  }
  /// Returns the first operation from this number on; nullptr if there is none.
  MatchedOperation* FirstFrom(uint64_t sequence) const {
    const auto found = operations_.lower_bound(sequence);
    return found == operations_.end() ? nullptr : found->second;
  }
  bool empty() const { return operations_.empty(); }

  /// Calls `call` with up to `most` operations. Begins behind those that were looked at last.
  template <typename Call>
  void LookAtSome(size_t most, Call&& call) {
    auto next = operations_.upper_bound(looked_at_);
    for (size_t i = 0; i < most && i < operations_.size(); ++i, ++next) {
      if (next == operations_.end()) next = operations_.begin();
      looked_at_ = next->first;
      call(next->second);
    }
  }
  /// Calls `call` with the first operations, up to `most`.
  template <typename Call>
  void ForFirst(size_t most, Call&& call) const {
    for (const auto& [sequence, operation] : operations_) {
      if (most-- == 0) return;
      call(operation);
    }
  }

 private:
  using Operations = std::map<uint64_t, MatchedOperation*>;

  /// Most places that are kept for later operations, so that no memory is allocated for each.
  static constexpr size_t kMostSpare = 64;

  Operations operations_;
  std::vector<Operations::node_type> spare_;
  uint64_t looked_at_ = UINT64_MAX;
};

}  // namespace harmonaize::daemon
