#pragma once

#include <array>

#include "src/base/intrusive_list.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/tenant_turns.h"

namespace harmonaize {

/// Executions that wait for a slot of the board, by tenant. Thread: the executor's owner.
class WaitingList {
 public:
  void Push(Execution* execution);
  /// Removes and returns the oldest execution of the waiting tenant with the fewest slots per
  /// weight; nullptr if none waits.
  Execution* TakeNext() { return waiting_ == 0 ? nullptr : TakeOne(); }
  /// Removes an execution in constant time. Requires: it waits here.
  void Remove(Execution* execution) {
    execution->Unlink();
    --waiting_;
  }

  /// Note that an execution was given a slot of the board, and that its slot was freed.
  void NotePosted(const Execution& execution) { ++OfPlace(execution).posted; }
  void NoteRetired(const Execution& execution) { --OfPlace(execution).posted; }

 private:
  struct OfTenant {
    IntrusiveList<Execution> waiting;
    int posted = 0;
  };
  OfTenant& OfPlace(const Execution& execution) {
    return by_place_[static_cast<size_t>(execution.place_)];
  }

  Execution* TakeOne();

  int waiting_ = 0;  // executions, of all tenants
  std::array<OfTenant, TenantPlaces::kPlaces> by_place_;
};

}  // namespace harmonaize
