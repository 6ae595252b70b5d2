#pragma once

#include <array>

#include "src/executor/host/execution.h"
#include "src/executor/host/tenant_turns.h"

namespace harmonaize {

/// Executions that wait for a slot of the board, by tenant. For the owner of the executor.
class WaitingList {
 public:
  void Push(Execution* execution);
  /// Of the tenants that wait the one who has the fewest slots by its weight: what it has started
  /// first, taken out. Null when none waits.
  Execution* TakeNext();
  /// Takes an execution out in constant time. Requires: it waits here.
  void Remove(Execution* execution);

  /// It has got a slot, and given it back.
  void NotePosted(const Execution& execution) { ++OfPlace(execution).posted; }
  void NoteRetired(const Execution& execution) { --OfPlace(execution).posted; }

 private:
  struct OfTenant {
    Execution* first = nullptr;
    Execution* last = nullptr;
    int posted = 0;
  };
  OfTenant& OfPlace(const Execution& execution) {
    return by_place_[static_cast<size_t>(execution.place_)];
  }

  std::array<OfTenant, TenantPlaces::kPlaces> by_place_;
};

}  // namespace harmonaize
