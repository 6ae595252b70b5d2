#include "daemon/formation/issued_ids.h"

#include <utility>

#include "daemon/cluster/cluster.h"

namespace harmonaize::daemon {
namespace {

template <typename Owner>
void EraseFrom(std::map<Owner, std::set<UniqueId>>* index, Owner owner, const UniqueId& id) {
  const auto found = index->find(owner);
  if (found == index->end()) return;
  found->second.erase(id);
  if (found->second.empty()) index->erase(found);
}

}  // namespace

Result<UniqueId> IssuedIds::Issue(Tenant* tenant, uint32_t session, uint64_t parent) {
  Result<UniqueId> id = MakeSecretId();
  if (!id.ok()) return id;
  HZ_ASSIGN_OR_RETURN(Holding place, tenant->account->Take(Resource::kUniqueIds, 1));
  if (cluster_ != nullptr) HZ_RETURN_IF_ERROR(cluster_->Seal(&*id));
  Add(*id, {tenant->identity.across_hosts, tenant, std::move(place), session, parent});
  return id;
}

Status IssuedIds::CheckUse(const UniqueId& id, uint32_t user, const Tenant* tenant) const {
  const IssuedId* const issued = Find(id);
  if (issued == nullptr) {
    return InvalidArgument(
        "the unique id is not known to the daemon that made it: it was restarted since, the "
        "process that asked for the id has ended, or the id has served already; or it comes from a "
        "host that is in no cluster with this one. Call ncclGetUniqueId again and hand the new id "
        "to all ranks");
  }
  // On one host a tenant can be more than its user; other daemons know users alone.
  const bool is_other = tenant != nullptr && issued->session != 0 && tenant != issued->owner;
  if (issued->tenant != user || is_other) {
    return InvalidUsage("the unique id belongs to another user");
  }
  return Status::Ok();
}

void IssuedIds::Add(const UniqueId& id, IssuedId issued) {
  if (issued.session != 0) of_session_[issued.session].insert(id);
  if (issued.parent != 0) of_parent_[issued.parent].insert(id);
  ids_.insert_or_assign(id, std::move(issued));
}

const IssuedId* IssuedIds::Find(const UniqueId& id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : &found->second;
}

void IssuedIds::Erase(const UniqueId& id) {
  const auto found = ids_.find(id);
  if (found == ids_.end()) return;
  EraseFrom(&of_session_, found->second.session, id);
  EraseFrom(&of_parent_, found->second.parent, id);
  ids_.erase(found);
}

void IssuedIds::EraseOfSession(uint32_t session, const std::function<bool(const UniqueId&)>& keep) {
  const auto of_session = of_session_.find(session);
  if (of_session == of_session_.end()) return;
  std::set<UniqueId> ids = std::move(of_session->second);
  of_session_.erase(of_session);
  for (const UniqueId& id : ids) {
    if (!keep(id)) Erase(id);
  }
}

void IssuedIds::EraseOfParent(uint64_t parent) {
  // The last that is erased takes the entry along.
  for (auto found = of_parent_.find(parent); found != of_parent_.end();
       found = of_parent_.find(parent)) {
    Erase(UniqueId(*found->second.begin()));
  }
}

}  // namespace harmonaize::daemon
