// The operations with options of their own (NCCL 2.32). The options steer NCCL's kernels, so all
// but two of them mean nothing here, and the operation runs as its plain form does.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {
namespace {

constexpr unsigned kCollectiveConfigMagic = 0xcafebeef;

/// Checks the options of one operation; NULL: none.
Status CheckCollectiveConfig(const ncclCollConfig_t* config) {
  if (config == nullptr) return Status::Ok();
  // The first two members are at the same place in every version.
  if (config->magic != kCollectiveConfigMagic || config->size < offsetof(ncclCollConfig_t, ext)) {
    return InvalidArgument("config was not initialized with NCCL_COLLCONFIG_INITIALIZER");
  }
  ncclCollConfig_t ours = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&ours, config, std::min(config->size, sizeof ours));
  const bool names_algorithm = ours.algSelection != nullptr && *ours.algSelection != '\0';
  if (names_algorithm && ours.forceAlgSelection != 0) {
    return NotServed("NCCL's algorithms by name (config.algSelection)",
                     "set config.forceAlgSelection to 0, or name Harmonaize's algorithms in "
                     "collectives.algorithms.allow of the job's requirements");
  }
  if (ours.launchCompletionEvent != nullptr) {
    return NotServed("launches of kernels (config.launchCompletionEvent)",
                     "leave the event NULL, and wait for the stream");
  }
  return Status::Ok();
}

/// Runs `plain`, the same operation without options, if the options allow it.
template <typename Plain>
ncclResult_t PostConfigured(const char* function, ncclComm_t comm, const ncclCollConfig_t* config,
                            Plain&& plain) {
  const auto check = [config](Communicator&) { return CheckCollectiveConfig(config); };
  const ncclResult_t checked = CallOn(function, comm, check);
  return checked == ncclSuccess ? plain() : checked;
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Collective;
using harmonaize::shim::CarriedOperation;
using harmonaize::shim::Number;
using harmonaize::shim::PostConfigured;

HZ_NCCL_API(ncclResult_t, ncclAllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclAllReduceConfig, sendbuff, recvbuff, count, datatype, op, comm, stream, config);
  HZ_CARRY_AS(ncclAllReduceConfig, comm,
              CarriedOperation(comm, Collective::kAllReduce, count, Number(datatype), 0), sendbuff,
              recvbuff, count, datatype, op, carried, stream, config);
  return PostConfigured("ncclAllReduceConfig", comm, config, [&] {
    return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclBroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclBroadcastConfig, sendbuff, recvbuff, count, datatype, root, comm, stream, config);
  HZ_CARRY_AS(ncclBroadcastConfig, comm,
              CarriedOperation(comm, Collective::kBroadcast, count, Number(datatype), root),
              sendbuff, recvbuff, count, datatype, root, carried, stream, config);
  return PostConfigured("ncclBroadcastConfig", comm, config, [&] {
    return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclReduceConfig, sendbuff, recvbuff, count, datatype, op, root, comm, stream, config);
  HZ_CARRY_AS(ncclReduceConfig, comm,
              CarriedOperation(comm, Collective::kReduce, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, op, root, carried, stream, config);
  return PostConfigured("ncclReduceConfig", comm, config, [&] {
    return pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclAllGatherConfig, const void* sendbuff, void* recvbuff,
            size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclAllGatherConfig, sendbuff, recvbuff, sendcount, datatype, comm, stream, config);
  HZ_CARRY_AS(ncclAllGatherConfig, comm,
              CarriedOperation(comm, Collective::kAllGather, sendcount, Number(datatype), 0),
              sendbuff, recvbuff, sendcount, datatype, carried, stream, config);
  return PostConfigured("ncclAllGatherConfig", comm, config, [&] {
    return pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclReduceScatterConfig, const void* sendbuff, void* recvbuff,
            size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclReduceScatterConfig, sendbuff, recvbuff, recvcount, datatype, op, comm, stream,
             config);
  HZ_CARRY_AS(ncclReduceScatterConfig, comm,
              CarriedOperation(comm, Collective::kReduceScatter, recvcount, Number(datatype), 0),
              sendbuff, recvbuff, recvcount, datatype, op, carried, stream, config);
  return PostConfigured("ncclReduceScatterConfig", comm, config, [&] {
    return pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclAlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclAlltoAllConfig, sendbuff, recvbuff, count, datatype, comm, stream, config);
  HZ_CARRY_AS(ncclAlltoAllConfig, comm,
              CarriedOperation(comm, Collective::kAllToAll, count, Number(datatype), 0), sendbuff,
              recvbuff, count, datatype, carried, stream, config);
  return PostConfigured("ncclAlltoAllConfig", comm, config, [&] {
    return pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclGatherConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclGatherConfig, sendbuff, recvbuff, count, datatype, root, comm, stream, config);
  HZ_CARRY_AS(ncclGatherConfig, comm,
              CarriedOperation(comm, Collective::kGather, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, root, carried, stream, config);
  return PostConfigured("ncclGatherConfig", comm, config, [&] {
    return pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream);
  });
}

HZ_NCCL_API(ncclResult_t, ncclScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  HZ_FORWARD(ncclScatterConfig, sendbuff, recvbuff, count, datatype, root, comm, stream, config);
  HZ_CARRY_AS(ncclScatterConfig, comm,
              CarriedOperation(comm, Collective::kScatter, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, root, carried, stream, config);
  return PostConfigured("ncclScatterConfig", comm, config, [&] {
    return pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream);
  });
}
