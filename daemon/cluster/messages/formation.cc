#include "daemon/cluster/messages/formation.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "daemon/identity/job_identity.h"

namespace harmonaize::daemon::fields {
template <>
inline constexpr int kValueCount<FormationKind> = kFormationKindCount;
}  // namespace harmonaize::daemon::fields

namespace harmonaize::daemon {

using fields::AllBelow;
using fields::AllDifferent;
using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(ApplyMessage, ticket, kind, id, communicator, round, ranks, rank, takes_part,
                  color, key, excluded, abort_parent, name, job, user, address, host, on_gpu)
HARMONAIZE_FIELDS(WithdrawMessage, ticket, status)
HARMONAIZE_FIELDS(TicketedRank, ticket, rank)
HARMONAIZE_FIELDS(FormedMessage, communicator, name, job, addresses, fabric_hosts, host_of_rank,
                  self, home_host, ranks, fabric, all_on_gpu)
HARMONAIZE_FIELDS(RefusedMessage, tickets, status)
HARMONAIZE_FIELDS(FormingNoticeMessage, tickets, notice)
HARMONAIZE_FIELDS(AskGrowIdMessage, ticket, communicator, user)
HARMONAIZE_FIELDS(GrowIdMessage, ticket, id, status)

static bool IsSound(const ApplyMessage& apply) {
  const bool answered = apply.takes_part && apply.ticket != 0;
  const std::vector<int>& excluded = apply.excluded;
  return (answered || (apply.kind == FormationKind::kSplit && !apply.takes_part)) &&
         IsEncodedJob(apply.job) && InRange(apply.ranks, kMostRanks + 1) &&
         InRange(apply.rank, kMostRanks) && AllBelow(excluded, kMostRanks) &&
         AllDifferent(excluded) && std::is_sorted(excluded.begin(), excluded.end()) &&
         !std::binary_search(excluded.begin(), excluded.end(), apply.rank);
}

static bool IsSound(const FormedMessage& formed) {
  const auto hosts = static_cast<int>(formed.addresses.size());
  const auto ranks = static_cast<int>(formed.host_of_rank.size());
  if (!IsEncodedJob(formed.job) || DecodeJob(formed.job).none()) return false;
  if (formed.communicator == 0 || !InRange(formed.self, hosts)) return false;
  if (formed.home_host < -1 || formed.home_host >= hosts || formed.home_host == formed.self) {
    return false;
  }
  if (formed.fabric_hosts.size() != formed.addresses.size()) return false;
  if (!AllDifferent(formed.fabric_hosts) || !AllBelow(formed.fabric_hosts, INT_MAX)) return false;
  if (!AllBelow(formed.host_of_rank, hosts)) return false;
  // All ranks of the receiver, each once.
  std::vector<int> given;
  for (const TicketedRank& one : formed.ranks) {
    if (one.ticket == 0 || !InRange(one.rank, ranks)) return false;
    given.push_back(one.rank);
  }
  std::sort(given.begin(), given.end());
  std::vector<int> own;
  for (int rank = 0; rank < ranks; ++rank) {
    if (formed.host_of_rank[static_cast<size_t>(rank)] == formed.self) own.push_back(rank);
  }
  return !own.empty() && given == own;
}

constinit const SubjectCodec kFormationCodec = fields::CodecOf(FormationMessages());

}  // namespace harmonaize::daemon
