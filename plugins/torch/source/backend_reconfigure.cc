// A group whose processes are chosen anew while it lives.

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>
#include <variant>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "plugins/torch/source/backend.h"
#include "plugins/torch/source/errors.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

namespace harmonaize_torch {
namespace {

std::vector<std::string> InOrder(const c10d::ReconfigureOptions& options) {
  if (const auto* const list = std::get_if<std::vector<std::string>>(&options.handles)) {
    return *list;
  }
  const auto& set = std::get<std::unordered_set<std::string>>(options.handles);
  std::vector<std::string> sorted(set.begin(), set.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// Returns this process's rank among the handles.
int RankAmong(const std::vector<std::string>& handles, const std::string& own) {
  TORCH_CHECK_VALUE(std::count(handles.begin(), handles.end(), own) == 1,
                    "reconfigure: this process's handle has to be among the ", handles.size(),
                    " handles, once: ", own);
  return static_cast<int>(std::find(handles.begin(), handles.end(), own) - handles.begin());
}

/// Throws if another process was given other handles for the same uuid: ranks would not fit.
void CheckSameHandles(c10d::Store& store, const std::vector<std::string>& handles,
                      const std::string& uuid) {
  std::string list;
  for (const std::string& handle : handles) list += handle + "\n";
  const std::string digest = std::to_string(std::hash<std::string>{}(list));
  // The first one to come sets it; all get what it has set.
  TORCH_CHECK_VALUE(store.compareSet("handles", std::string(), digest) == digest,
                    "reconfigure: processes were given different handles, or the same ones in "
                    "different orders, for the uuid ",
                    uuid);
}

}  // namespace

std::shared_ptr<Membership> Backend::TakeMembership() {
  const std::lock_guard lock(membership_mutex_);
  return std::exchange(membership_, nullptr);
}

WorkPointer Backend::reconfigure(const c10d::ReconfigureOptions& options) {
  CheckProcess();
  const std::vector<std::string> handles = InOrder(options);
  const std::string uuid = std::to_string(options.uuid);
  GroupPlace place = place_;
  place.rank = RankAmong(handles, handle_);
  place.size = static_cast<int>(handles.size());
  place.timeout = options.timeout.value_or(timeout_.load());
  place.store =
      c10::make_intrusive<c10d::PrefixStore>("harmonaize/reconfigured/" + uuid, place_.store);
  CheckSameHandles(*place.store, handles, uuid);
  TORCH_CHECK_VALUE(place.store->add("taken/" + std::to_string(place.rank), 1) == 1,
                    "reconfigure: the uuid ", uuid, " was used before");
  if (const std::shared_ptr<Membership> former = TakeMembership()) {
    // Without a lock: operations that end may have something called that communicates.
    former->Abort("group " + place_.name + " was reconfigured");
  }
  std::shared_ptr<Membership> formed = Membership::Form(place);
  {
    const std::lock_guard lock(membership_mutex_);
    membership_ = std::move(formed);
  }
  rank_ = place.rank;
  size_ = place.size;
  sequence_ = 0;
  c10d::BarrierOptions barrier_options;
  barrier_options.timeout = place.timeout;
  return barrier(barrier_options);
}

}  // namespace harmonaize_torch

#endif
