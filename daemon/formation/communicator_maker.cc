#include "daemon/formation/communicator_maker.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/tenant/session_table.h"

namespace harmonaize::daemon {

Communicator* CommunicatorMaker::Make(const std::string& name, Tenant* tenant,
                                      std::vector<Member*> members, std::optional<Roster> roster,
                                      CommunicatorHoldings holdings) {
  auto made =
      std::make_unique<Communicator>(communicator_, communicators_.NextId(), name, tenant, members);
  if (roster.has_value()) {
    made->Span(std::make_unique<NetworkRunner>(hosts_, made.get(), *std::move(roster)));
  }
  Communicator* const communicator = communicators_.Add(std::move(made));
  communicator->Keep(std::move(holdings));
  const int hosts =
      communicator->host_group() == nullptr ? 1 : communicator->host_group()->roster().hosts();
  const int together = communicator->host_group() == nullptr
                           ? static_cast<int>(members.size())
                           : communicator->host_group()->roster().RanksTogether();
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Member* member = members[rank];
    if (member == nullptr) continue;
    member->formation = nullptr;
    member->ticket = 0;
    member->communicator = communicator;
    member->rank = static_cast<int>(rank);
    member->ranks = static_cast<int>(members.size());
    member->slot->rank.store(member->rank, std::memory_order_relaxed);
    member->slot->ranks.store(static_cast<int32_t>(members.size()), std::memory_order_relaxed);
    member->slot->across_hosts.store(hosts > 1 ? 1 : 0, std::memory_order_relaxed);
    member->slot->ranks_together.store(together, std::memory_order_relaxed);
    // What the slot's last owner left behind counted another one's operations.
    member->slot->progress.carried.completed.store(0, std::memory_order_relaxed);
    member->slot->progress.filled.store(0, std::memory_order_relaxed);
    if (communicator->host_group() != nullptr) member->session->NoteOtherHosts();
    member->SetState(MemberState::kReady);
  }
  UniteJobs(communicator);
  communicator_.observers->Tell(&CommunicatorObserver::OnFormed, *communicator, hosts);
  return communicator;
}

// Its ranks are of one job, with all that they have communicators with already.
void CommunicatorMaker::UniteJobs(Communicator* communicator) {
  std::set<uint32_t> jobs;
  for (int rank = 0; rank < communicator->ranks(); ++rank) {
    const Member* const member = communicator->member(rank);
    if (member != nullptr) jobs.insert(member->session->job());
  }
  if (jobs.empty()) return;
  const uint32_t job = *jobs.begin();
  communicator->set_job(job);
  if (jobs.size() == 1) return;
  for (const auto& [id, session] : sessions_.all()) {
    if (jobs.contains(session->job())) session->set_job(job);
  }
  for (const auto& [id, other] : communicators_.all()) {
    if (jobs.contains(other->job())) other->set_job(job);
  }
}

}  // namespace harmonaize::daemon
