// NCCL's device-side interface: communication from inside GPU kernels. It needs GPUs and is not
// supported; the only questions answered are those that need none: which ranks form which team, and
// that none of this is supported.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

// Laid out as in NCCL's device headers; the other types are only passed by address.
struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
};
struct ncclMultimemHandle {
  void* base;
};
/// What ncclCommQueryProperties answers, as long as NCCL 2.32 has it.
struct ncclCommProperties {
  size_t size;       ///< Bytes that the caller's header gives this structure.
  unsigned magic;    ///< 0xcafebeef
  unsigned version;  ///< Version code of the caller's header.
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;  ///< 0: none, here and below.
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;
  int ginMinStride;
  int ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
};
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclGinBarrierHandle;
struct ncclGinInboxA2AHandle;
struct ncclGinOutboxHandle;
struct ncclLLA2AHandle;
struct ncclLsaBarrierHandle;

namespace harmonaize::shim {
namespace {

ncclResult_t Refuse(const char* function) {
  return Call(function, nullptr, [] {
    return NotServed("communication from inside GPU kernels, which needs GPUs",
                     "call the operations of nccl.h from the host");
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

/// Answers for the communicator. Members that the caller's header does not have are not written,
/// and those that this library does not know are left as they are.
Status QueryProperties(ncclComm_t comm, ncclCommProperties* out) {
  constexpr unsigned kPropertiesMagic = 0xcafebeef;
  HZ_RETURN_IF_ERROR(CheckPointer(out, "props"));
  const Communicator& communicator = *comm->communicator;
  if (communicator.rank() < 0) return InvalidUsage("the communicator is not ready");
  if (out->magic != kPropertiesMagic || out->size < offsetof(ncclCommProperties, rank)) {
    return InvalidArgument("props was not initialized with NCCL_COMM_PROPERTIES_INITIALIZER");
  }
  ncclCommProperties answer = {};
  answer.size = out->size;
  answer.magic = out->magic;
  answer.version = out->version;
  answer.rank = communicator.rank();
  answer.nRanks = communicator.ranks();
  answer.cudaDev = answer.nvmlDev = communicator.options().device;
  answer.nLsaTeams = communicator.ranks() / communicator.ranks_together();
  std::memcpy(out, &answer, std::min(out->size, sizeof answer));
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclTeam, ncclTeamWorld, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamWorld, comm);
  HZ_CARRY_QUERY(ncclTeamWorld, comm, carried);
  return TeamOf("ncclTeamWorld", comm, [](const Communicator& communicator) {
    return ncclTeam{communicator.ranks(), communicator.rank(), 1};
  });
}

// Returns the ranks that can load from and store to each other's memory: those of one host. As in
// NCCL all of these teams are runs of ranks of one length. So if hosts have different numbers of
// ranks, or ranks are dealt to hosts in turns, a team is a part of a host's ranks.
HZ_NCCL_API(ncclTeam, ncclTeamLsa, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamLsa, comm);
  HZ_CARRY_QUERY(ncclTeamLsa, comm, carried);
  return TeamOf("ncclTeamLsa", comm, [](const Communicator& communicator) {
    const int together = communicator.ranks_together();
    return ncclTeam{together, communicator.rank() % together, 1};
  });
}

// Returns the ranks that have this one's place in their teams.
HZ_NCCL_API(ncclTeam, ncclTeamRail, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamRail, comm);
  HZ_CARRY_QUERY(ncclTeamRail, comm, carried);
  return TeamOf("ncclTeamRail", comm, [](const Communicator& communicator) {
    const int together = communicator.ranks_together();
    return ncclTeam{communicator.ranks() / together, communicator.rank() / together, together};
  });
}

HZ_NCCL_API(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam team, int rank) {
  HZ_FORWARD(ncclTeamRankToWorld, comm, team, rank);
  HZ_CARRY_QUERY(ncclTeamRankToWorld, comm, carried, team, rank);
  return Translate("ncclTeamRankToWorld", comm, team, rank,
                   [](const Communicator& communicator) { return communicator.rank(); });
}

HZ_NCCL_API(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam team, int rank) {
  HZ_FORWARD(ncclTeamRankToLsa, comm, team, rank);
  HZ_CARRY_QUERY(ncclTeamRankToLsa, comm, carried, team, rank);
  return Translate("ncclTeamRankToLsa", comm, team, rank, [](const Communicator& communicator) {
    return communicator.rank() % communicator.ranks_together();
  });
}

HZ_NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t comm,
            const ncclDevCommRequirements* requirements, ncclDevComm* out) {
  HZ_FORWARD(ncclDevCommCreate, comm, requirements, out);
  HZ_CARRY(ncclDevCommCreate, comm, carried, requirements, out);
  return Refuse("ncclDevCommCreate");
}

HZ_NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const ncclDevComm* device_comm) {
  HZ_FORWARD(ncclDevCommDestroy, comm, device_comm);
  HZ_CARRY(ncclDevCommDestroy, comm, carried, device_comm);
  return Refuse("ncclDevCommDestroy");
}

HZ_NCCL_API(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam team,
            int barriers, ncclGinBarrierHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclGinBarrierCreateRequirement, comm, team, barriers, handle, requirement);
  HZ_CARRY(ncclGinBarrierCreateRequirement, comm, carried, team, barriers, handle, requirement);
  return Refuse("ncclGinBarrierCreateRequirement");
}

HZ_NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam team, int barriers,
            ncclLsaBarrierHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclLsaBarrierCreateRequirement, team, barriers, handle, requirement);
  HZ_CARRY_UNBOUND(ncclLsaBarrierCreateRequirement, team, barriers, handle, requirement);
  return Refuse("ncclLsaBarrierCreateRequirement");
}

HZ_NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement, int blocks, int slots,
            ncclLLA2AHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclLLA2ACreateRequirement, blocks, slots, handle, requirement);
  HZ_CARRY_UNBOUND(ncclLLA2ACreateRequirement, blocks, slots, handle, requirement);
  return Refuse("ncclLLA2ACreateRequirement");
}

HZ_NCCL_API(int, ncclLLA2ACalcSlots, int max_elements, int max_element_bytes) {
  HZ_FORWARD(ncclLLA2ACalcSlots, max_elements, max_element_bytes);
  HZ_CARRY_UNBOUND(ncclLLA2ACalcSlots, max_elements, max_element_bytes);
  Refuse("ncclLLA2ACalcSlots");
  return 0;
}

HZ_NCCL_API(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties* props) {
  HZ_FORWARD(ncclCommQueryProperties, comm, props);
  HZ_CARRY(ncclCommQueryProperties, comm, carried, props);
  return CallOn("ncclCommQueryProperties", comm,
                [&](Communicator&) { return QueryProperties(comm, props); });
}

HZ_NCCL_API(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int rank,
            void** out) {
  HZ_FORWARD(ncclGetLsaDevicePointer, window, offset, rank, out);
  HZ_CARRY_UNBOUND(ncclGetLsaDevicePointer, window, offset, rank, out);
  return Refuse("ncclGetLsaDevicePointer");
}

HZ_NCCL_API(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer,
            void** out) {
  HZ_FORWARD(ncclGetPeerDevicePointer, window, offset, peer, out);
  HZ_CARRY_UNBOUND(ncclGetPeerDevicePointer, window, offset, peer, out);
  return Refuse("ncclGetPeerDevicePointer");
}

HZ_NCCL_API(ncclResult_t, ncclGetMultimemDevicePointer, ncclWindow_t window, size_t offset,
            ncclMultimemHandle multimem, void** out) {
  HZ_FORWARD(ncclGetMultimemDevicePointer, window, offset, multimem, out);
  HZ_CARRY_UNBOUND(ncclGetMultimemDevicePointer, window, offset, multimem, out);
  return Refuse("ncclGetMultimemDevicePointer");
}

HZ_NCCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset,
            void** out) {
  HZ_FORWARD(ncclGetLsaMultimemDevicePointer, window, offset, out);
  HZ_CARRY_UNBOUND(ncclGetLsaMultimemDevicePointer, window, offset, out);
  return Refuse("ncclGetLsaMultimemDevicePointer");
}

HZ_NCCL_API(ncclResult_t, ncclGetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset,
            uint32_t* id, size_t* out) {
  HZ_FORWARD(ncclGetMultimemDeviceLeInfo, window, offset, id, out);
  HZ_CARRY_UNBOUND(ncclGetMultimemDeviceLeInfo, window, offset, id, out);
  return Refuse("ncclGetMultimemDeviceLeInfo");
}

HZ_NCCL_API(ncclResult_t, ncclGetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peer,
            ncclTeam team, uint32_t* id, size_t* out) {
  HZ_FORWARD(ncclGetCftDeviceLeInfo, window, offset, peer, team, id, out);
  HZ_CARRY_UNBOUND(ncclGetCftDeviceLeInfo, window, offset, peer, team, id, out);
  return Refuse("ncclGetCftDeviceLeInfo");
}

HZ_NCCL_API(ncclResult_t, ncclGetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peer,
            uint32_t* id, size_t* out) {
  HZ_FORWARD(ncclGetPeerDeviceLeInfo, window, offset, peer, id, out);
  HZ_CARRY_UNBOUND(ncclGetPeerDeviceLeInfo, window, offset, peer, id, out);
  return Refuse("ncclGetPeerDeviceLeInfo");
}

HZ_NCCL_API(ncclTeam, ncclTeamCft, ncclComm_t comm, int mode) {
  HZ_FORWARD(ncclTeamCft, comm, mode);
  HZ_CARRY_QUERY(ncclTeamCft, comm, carried, mode);
  Refuse("ncclTeamCft");
  return {};
}

HZ_NCCL_API(ncclTeam, ncclTeamCftMultimem, ncclComm_t comm) {
  HZ_FORWARD(ncclTeamCftMultimem, comm);
  HZ_CARRY_QUERY(ncclTeamCftMultimem, comm, carried);
  Refuse("ncclTeamCftMultimem");
  return {};
}

HZ_NCCL_API(ncclResult_t, ncclGinOutboxCreateRequirement, int blocks, int size_log2,
            ncclGinOutboxHandle* handle, ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclGinOutboxCreateRequirement, blocks, size_log2, handle, requirement);
  HZ_CARRY_UNBOUND(ncclGinOutboxCreateRequirement, blocks, size_log2, handle, requirement);
  return Refuse("ncclGinOutboxCreateRequirement");
}

HZ_NCCL_API(ncclResult_t, ncclGinInboxA2ACreateRequirement, ncclTeam peers, int blocks,
            int size_log2, ncclGinInboxA2AHandle* handle,
            ncclDevResourceRequirements* requirement) {
  HZ_FORWARD(ncclGinInboxA2ACreateRequirement, peers, blocks, size_log2, handle, requirement);
  HZ_CARRY_UNBOUND(ncclGinInboxA2ACreateRequirement, peers, blocks, size_log2, handle, requirement);
  return Refuse("ncclGinInboxA2ACreateRequirement");
}
