// NCCL's device-side interface: communication from inside GPU kernels. It needs GPUs and is not
// supported; the only questions answered are those that need none: which ranks form which team.

#include <cstdint>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

// Laid out as in NCCL's device headers; the other types are only passed by address.
struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
};
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
struct ncclLsaBarrierHandle;

namespace harmonaize::shim {
namespace {

ncclResult_t Refuse(const char* function) {
  return Call(function, nullptr, [] {
    return InvalidUsage("device-side communication needs GPUs and is not served by Harmonaize");
  });
}

/// Returns `team` of the communicator, or an empty team, with the last error set, when there is
/// none.
template <typename Team>
ncclTeam TeamOf(const char* function, ncclComm_t comm, Team&& team) {
  ncclTeam result = {};
  CallOn(function, comm, [&](Communicator& communicator) -> Status {
    if (communicator.rank() < 0) return InvalidUsage("the communicator is not ready");
    result = team(communicator);
    return Status::Ok();
  });
  return result;
}

/// Returns the number in another team of rank `rank` of `team`. Both teams contain the calling
/// rank, whose number in the other one `own` returns. -1, with the last error set, when there is
/// none.
template <typename Own>
int Translate(const char* function, ncclComm_t comm, ncclTeam team, int rank, Own&& own) {
  int number = -1;
  CallOn(function, comm, [&](Communicator& communicator) -> Status {
    if (communicator.rank() < 0) return InvalidUsage("the communicator is not ready");
    number = own(communicator) + (rank - team.rank) * team.stride;
    return Status::Ok();
  });
  return number;
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclTeam, ncclTeamWorld, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamWorld, comm);
  return TeamOf("ncclTeamWorld", comm, [](const Communicator& communicator) {
    return ncclTeam{communicator.ranks(), communicator.rank(), 1};
  });
}

// Returns the ranks that can load from and store to each other's memory: those of one host. As in
// NCCL all of these teams are runs of ranks of one length. So if hosts have different numbers of
// ranks, or ranks are dealt to hosts in turns, a team is a part of a host's ranks.
HZ_NCCL_API(ncclTeam, ncclTeamLsa, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamLsa, comm);
  return TeamOf("ncclTeamLsa", comm, [](const Communicator& communicator) {
    const int together = communicator.ranks_together();
    return ncclTeam{together, communicator.rank() % together, 1};
  });
}

// Returns the ranks that have this one's place in their teams.
HZ_NCCL_API(ncclTeam, ncclTeamRail, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamRail, comm);
  return TeamOf("ncclTeamRail", comm, [](const Communicator& communicator) {
    const int together = communicator.ranks_together();
    return ncclTeam{communicator.ranks() / together, communicator.rank() / together, together};
  });
}

HZ_NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam team, int rank) {
  HZ_FORWARD(ncclTeamRankToWorld, comm, team, rank);
  return Translate("ncclTeamRankToWorld", comm, team, rank,
                   [](const Communicator& communicator) { return communicator.rank(); });
}

HZ_NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam team, int rank) {
  HZ_FORWARD(ncclTeamRankToLsa, comm, team, rank);
  return Translate("ncclTeamRankToLsa", comm, team, rank, [](const Communicator& communicator) {
    return communicator.rank() % communicator.ranks_together();
  });
}

HZ_NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t comm,
            const ncclDevCommRequirements* requirements, ncclDevComm* out) {
  HZ_FORWARD(ncclDevCommCreate, comm, requirements, out);
  return Refuse("ncclDevCommCreate");
}

HZ_NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const ncclDevComm* device_comm) {
  HZ_FORWARD(ncclDevCommDestroy, comm, device_comm);
  return Refuse("ncclDevCommDestroy");
}

HZ_NCCL_API(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam team,
            int barriers, ncclGinBarrierHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclGinBarrierCreateRequirement, comm, team, barriers, handle, requirement);
  return Refuse("ncclGinBarrierCreateRequirement");
}

HZ_NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam team, int barriers,
            ncclLsaBarrierHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclLsaBarrierCreateRequirement, team, barriers, handle, requirement);
  return Refuse("ncclLsaBarrierCreateRequirement");
}

HZ_NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement, int blocks, int slots,
            ncclLLA2AHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclLLA2ACreateRequirement, blocks, slots, handle, requirement);
  return Refuse("ncclLLA2ACreateRequirement");
}

HZ_NCCL_API(int, ncclLLA2ACalcSlots, int max_elements, int max_element_bytes) {
  HZ_FORWARD(ncclLLA2ACalcSlots, max_elements, max_element_bytes);
  Refuse("ncclLLA2ACalcSlots");
  return 0;
}
