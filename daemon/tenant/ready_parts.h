#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/tenant/posted_operation.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {

/// Parts that their streams have come to. Tenants take turns, so that none waits behind all parts
/// of another. Thread: engine.
class ReadyParts {
 public:
  /// Returns the list that a tenant's parts are appended to. The caller calls Note afterwards.
  static std::vector<PostedOperation*>* ListOf(Tenant& tenant) { return &tenant.ready.parts; }
  void Add(Tenant& tenant, PostedOperation* part) {
    ListOf(tenant)->push_back(part);
    Note(tenant);
  }
  /// Puts the tenant into the turns if there are parts in its list.
  void Note(Tenant& tenant) {
    if (tenant.ready.parts.empty() || tenant.ready.listed) return;
    tenants_.push_back(&tenant);
    tenant.ready.listed = true;
  }

  bool empty() const { return tenants_.empty(); }

  /// Calls `call` with the first parts of each tenant, kMostInATurn at most; `call` may add parts.
  template <typename Call>
  void TakeTurn(Call&& call) {
    // By index: tenants that come meanwhile have their turn, too.
    for (size_t i = 0; i < tenants_.size(); ++i) {
      ReadyList& ready = tenants_[i]->ready;
      const size_t end = std::min(ready.parts.size(), ready.first + kMostInATurn);
      while (ready.first < end) call(ready.parts[ready.first++]);
      if (ready.first < ready.parts.size()) continue;
      ready.parts.clear();
      ready.first = 0;
      ready.listed = false;
    }
    std::erase_if(tenants_, [](const Tenant* tenant) { return !tenant->ready.listed; });
  }

 private:
  /// Most parts of one tenant that start before the next tenant has its turn.
  static constexpr size_t kMostInATurn = 64;

  std::vector<Tenant*> tenants_;
};

}  // namespace harmonaize::daemon
