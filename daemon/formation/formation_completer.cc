#include "daemon/formation/formation_completer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/formation.h"
#include "daemon/formation/communicator_maker.h"
#include "daemon/formation/make_roster.h"
#include "daemon/formation/rank_limits.h"
#include "daemon/runtime/log_tenant.h"

namespace harmonaize::daemon {
namespace {

bool AllOnGpu(const std::vector<Applicant>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const Applicant& rank) { return rank.on_gpu; });
}

}  // namespace

Status FormationCompleter::Complete(Formation& formation) {
  // Excused places are gaps that a shrink closes.
  std::vector<Applicant> ranks;
  for (const auto& [place, applicant] : formation.taken()) {
    if (applicant.gets_communicator()) ranks.push_back(applicant);
  }
  return MakeCommunicator(formation, ranks);
}

Status FormationCompleter::CompleteSplit(Formation& formation,
                                         const std::vector<SplitCall>& calls) {
  std::map<int, std::vector<size_t>> colors;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (calls[rank].has_color) colors[calls[rank].color].push_back(rank);
  }
  for (auto& [color, ranks] : colors) {
    // Equal keys keep the parent's order, as in MPI_Comm_split.
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](size_t a, size_t b) { return calls[a].key < calls[b].key; });
    std::vector<Applicant> applicants;
    for (const size_t rank : ranks) applicants.push_back(formation.applicant(rank));
    HZ_RETURN_IF_ERROR(MakeCommunicator(formation, applicants));
  }
  return Status::Ok();
}

Status FormationCompleter::MakeCommunicator(Formation& formation,
                                            const std::vector<Applicant>& ranks) {
  std::map<transport::PeerId, size_t> ranks_of_host;
  for (const Applicant& rank : ranks) ++ranks_of_host[rank.peer];
  for (const auto& [host, count] : ranks_of_host) HZ_RETURN_IF_ERROR(CheckRanksOnHost(count));
  std::vector<Member*> members;
  for (const Applicant& rank : ranks) members.push_back(rank.member);
  const bool all_here = std::all_of(ranks.begin(), ranks.end(),
                                    [](const Applicant& rank) { return rank.peer == kThisDaemon; });
  Tenant& tenant = formation.tenant();
  const LogFor log_for(tenant.identity);
  std::optional<Roster> roster;
  if (!all_here) roster = MakeRoster(ranks, *cluster_, fabrics_);
  // A home of ranks that are all on one other host would have nothing to do.
  const bool kept = all_here || roster->hosts() > 1;
  CommunicatorHoldings holdings;
  if (kept) {
    HZ_ASSIGN_OR_RETURN(holdings, PayForCommunicator(*tenant.account, members.size()));
  }
  if (!all_here) TellFormed(*roster, ranks, formation);
  if (kept) {
    maker_.Make({.name = formation.name(),
                 .job = formation.JobOfRanks(),
                 .tenant = &tenant,
                 .members = std::move(members),
                 .roster = std::move(roster),
                 .holdings = std::move(holdings),
                 .all_on_gpu = AllOnGpu(ranks)});
  }
  return Status::Ok();
}

void FormationCompleter::TellFormed(const Roster& roster, const std::vector<Applicant>& ranks,
                                    const Formation& formation) {
  for (int host = 0; host < roster.hosts(); ++host) {
    const transport::PeerId peer = *roster.peers[static_cast<size_t>(host)];
    if (peer == kThisDaemon) continue;
    FormedMessage formed{.communicator = roster.key,
                         .name = formation.name(),
                         .job = EncodeJob(formation.JobOfRanks()),
                         .addresses = roster.addresses,
                         .fabric_hosts = roster.fabric_hosts,
                         .host_of_rank = roster.host_of_rank,
                         .self = host,
                         .home_host = roster.self,
                         .fabric = roster.fabric,
                         .all_on_gpu = AllOnGpu(ranks)};
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].peer == peer) {
        formed.ranks.push_back({ranks[rank].ticket, static_cast<int>(rank)});
      }
    }
    cluster_->Send(peer, formed);
  }
}

}  // namespace harmonaize::daemon
