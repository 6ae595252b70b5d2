#include "daemon/formation/communicator_maker.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/session_table.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// The gangs of the ranks that are on this host.
std::set<uint32_t> GangsOf(const std::vector<Member*>& members) {
  std::set<uint32_t> gangs;
  for (const Member* const member : members) {
    if (member != nullptr) gangs.insert(member->session->gang());
  }
  return gangs;
}

/// Returns the handle of a communicator (Communicator::handle). The key of one that spans hosts is
/// random.
std::string HandleOf(const Communicator& communicator) {
  const HostGroup* const group = communicator.host_group();
  const uint64_t number = group == nullptr ? RandomNumber() : group->roster().key;
  return fmt::format("{:08x}", static_cast<uint32_t>(number ^ number >> 32));
}

/// Returns what a rank on this host claims that belongs to the job; an empty claim if none does.
JobClaim ClaimOf(const JobIdentity& job, const std::vector<Member*>& members) {
  for (const Member* const member : members) {
    if (member != nullptr && member->session->job_claim().id == job) {
      return member->session->job_claim();
    }
  }
  return {};
}

}  // namespace

Communicator* CommunicatorMaker::Make(Order order) {
  const std::vector<Member*>& members = order.members;
  auto made = std::make_unique<Communicator>(services_, communicators_.NextId(), order.name,
                                             order.tenant, members);
  if (order.roster.has_value()) {
    made->Span(std::make_unique<NetworkRunner>(services_, made.get(), *std::move(order.roster)));
  }
  const Roster* const spans =
      made->host_group() == nullptr ? nullptr : &made->host_group()->roster();
  const int hosts = spans == nullptr ? 1 : spans->hosts();
  const int together = spans == nullptr ? static_cast<int>(members.size()) : spans->RanksTogether();
  const std::set<uint32_t> gangs = GangsOf(members);
  Job* const job = jobs_.Of(order.job, order.tenant, ClaimOf(order.job, members));
  made->SetJob(job);
  made->set_handle(HandleOf(*made));
  Communicator* const communicator = communicators_.Add(std::move(made));
  // Nothing throws from here on: a communicator that others can find has all of its ranks.
  JobTable::Add(job);
  communicator->Keep(std::move(order.holdings));
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
    member->slot->all_on_gpu.store(order.all_on_gpu ? 1 : 0, std::memory_order_relaxed);
    // The slot's last owner left counts of other operations behind.
    for (SliceProgress& lane : member->slot->lanes) {
      lane.carried.completed.store(0, std::memory_order_relaxed);
      lane.filled.store(0, std::memory_order_relaxed);
    }
    member->slot->job.Set(order.job.text());
    if (spans != nullptr) member->session->NoteOtherHosts();
    member->SetState(MemberState::kReady);
  }
  UniteGangs(gangs, communicator);
  GuardedAndLogged("the news of a communicator", [&] {
    services_.observers->Tell(&CommunicatorObserver::OnFormed, *communicator, hosts);
  });
  return communicator;
}

// The communicator's ranks are of one gang, with all that they have communicators with already.
void CommunicatorMaker::UniteGangs(const std::set<uint32_t>& gangs, Communicator* communicator) {
  if (gangs.empty()) return;
  const uint32_t gang = *gangs.begin();
  communicator->set_gang(gang);
  if (gangs.size() == 1) return;
  for (const auto& [id, session] : sessions_.all()) {
    if (gangs.contains(session->gang())) session->set_gang(gang);
  }
  for (const auto& [id, other] : communicators_.all()) {
    if (gangs.contains(other->gang())) other->set_gang(gang);
  }
}

}  // namespace harmonaize::daemon
