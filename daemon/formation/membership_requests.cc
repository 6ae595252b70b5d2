#include "daemon/formation/membership_requests.h"

#include <cstring>

namespace harmonaize::daemon {

Status CheckRanks(int ranks, int rank, int first_rank) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return InvalidArgument("a communicator of {} ranks: the number must be 1 to {}", ranks,
                           kMaxRanks);
  }
  if (rank < first_rank || rank >= ranks) {
    return InvalidArgument("rank {} is out of range: it must be {} to {}", rank, first_rank,
                           ranks - 1);
  }
  return Status::Ok();
}

Status CheckRanksOnHost(size_t ranks) {
  if (ranks <= static_cast<size_t>(kMaxRanksOnHost)) return Status::Ok();
  return InvalidUsage(
      "{} ranks of one communicator are on one host, where at most {} can be: use more hosts, or "
      "fewer ranks",
      ranks, kMaxRanksOnHost);
}

const char* WhatOf(FormationKind kind) {
  switch (kind) {
    case FormationKind::kSplit: return "ncclCommSplit";
    case FormationKind::kShrink: return "ncclCommShrink";
    case FormationKind::kGrow:
    case FormationKind::kJoinGrowth: return "ncclCommGrow";
    default: return "ncclCommInitRank";
  }
}

Result<UniqueId> IdOf(const ApplyMessage& request) {
  UniqueId id;
  if (request.id.size() != sizeof id) return InvalidArgument("a unique id of the wrong size");
  std::memcpy(&id, request.id.data(), sizeof id);
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  return id;
}

}  // namespace harmonaize::daemon
