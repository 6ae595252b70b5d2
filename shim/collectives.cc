// The operations. Each call fills an Operation, and the rest is the same for all.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "include/nccl.h"
#include "shim/debug_log.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/collective.h"
#include "src/base/log.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/group.h"
#include "src/client/operation/operation.h"
#include "src/client/operation/stream.h"
#include "src/numerics/types.h"

namespace harmonaize::shim {
namespace {

// NCCL's numbers for types and operators are ours.
static_assert(static_cast<int>(ncclFloat8e5m2) == static_cast<int>(DataType::kFloat8E5M2));
static_assert(static_cast<int>(ncclNumTypes) == kDataTypeCount);
static_assert(static_cast<int>(ncclAvg) == static_cast<int>(ReduceOperator::kAvg));
static_assert(static_cast<int>(ncclNumOps) == Communicator::kFirstUserOperator);

/// Numbers that a caller passed for ncclDataType_t and ncclRedOp_t, not yet checked.
struct Numbers {
  int type = ncclInt8;
  int op = ncclSum;
};

Status CheckRoot(const Operation& operation, int ranks) {
  const bool has_peer = IsPointToPoint(operation.collective);
  if (!has_peer && !HasRoot(operation.collective)) return Status::Ok();
  if (operation.root >= 0 && operation.root < ranks) return Status::Ok();
  return InvalidArgument("{} is {}, not in [0, {})", has_peer ? "peer" : "root", operation.root,
                         ranks);
}

/// Checks that the buffers of the call exist, and end inside the address space.
Status CheckBuffers(const Operation& operation, const Communicator& communicator) {
  if (operation.count == 0) return Status::Ok();
  const BufferBlocks blocks =
      BlocksOf(operation.collective, communicator.ranks(), communicator.rank(), operation.root);
  if (blocks.send != 0 && operation.send == nullptr) return CheckPointer(nullptr, "sendbuff");
  if (blocks.receive != 0 && operation.receive == nullptr) return CheckPointer(nullptr, "recvbuff");
  const uint64_t most_blocks = std::max(blocks.send, blocks.receive);
  const uint64_t element = DataTypeSize(operation.type);
  int64_t bytes = 0;
  // An element has at most 8 bytes, and the ranks are far fewer than would overflow their product.
  if (__builtin_mul_overflow(operation.count, most_blocks * element, &bytes)) {
    return InvalidArgument("count is {}: {} blocks of {} bytes an element are more than memory",
                           operation.count, most_blocks, element);
  }
  return Status::Ok();
}

/// Resolves the operator, and the scalar of one that ncclRedOpCreatePreMulSum made.
Status ResolveOperator(int op, ncclComm_t comm, Operation* operation) {
  if (!Reduces(operation->collective)) return Status::Ok();
  if (op < 0) return InvalidArgument("op is {}", op);
  if (op < ncclNumOps) {
    operation->op = static_cast<ReduceOperator>(op);
    return Status::Ok();
  }
  HZ_ASSIGN_OR_RETURN(const uint64_t scalar,
                      comm->communicator->PreMulSumScalar(op, operation->type));
  operation->op = ReduceOperator::kPreMulSum;
  operation->scalar = scalar;
  if (const auto deferred = comm->deferred_scalars.find(op);
      deferred != comm->deferred_scalars.end()) {
    operation->scalar = 0;
    std::memcpy(&operation->scalar, deferred->second, DataTypeSize(operation->type));
  }
  return Status::Ok();
}

/// Checks the caller's arguments, and completes the operation.
Status Complete(const Numbers& numbers, ncclComm_t comm, Operation* operation) {
  if (numbers.type < 0 || numbers.type >= ncclNumTypes) {
    return InvalidArgument("datatype is {}, not in [0, {})", numbers.type,
                           static_cast<int>(ncclNumTypes));
  }
  operation->type = static_cast<DataType>(numbers.type);
  HZ_RETURN_IF_ERROR(CheckRoot(*operation, comm->communicator->ranks()));
  HZ_RETURN_IF_ERROR(CheckBuffers(*operation, *comm->communicator));
  return ResolveOperator(numbers.op, comm, operation);
}

void LogCall(const Operation& operation, const Numbers& numbers, ncclComm_t comm,
             cudaStream_t stream) {
  const uint64_t number = comm->operations++;
  if (!LogEnabled(LogLevel::kInfo, kLogCollective)) return;
  LogAsNccl(comm->communicator->options().device, kLogCollective,
            "{}: opCount {:x} sendbuff {} recvbuff {} count {} datatype {} op {} root {} comm {} "
            "[nranks={}] stream {}",
            CollectiveName(operation.collective), number, fmt::ptr(operation.send),
            fmt::ptr(operation.receive), operation.count, numbers.type, numbers.op, operation.root,
            fmt::ptr(comm), comm->communicator->ranks(), fmt::ptr(stream));
}

/// Posts an operation in which the collective's buffers, count and root are set.
ncclResult_t Post(const char* function, ncclComm_t comm, cudaStream_t stream,
                  const Numbers& numbers, Operation operation) {
  return PostOn(function, comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckNotSuspended(comm));
    HZ_RETURN_IF_ERROR(communicator.CheckUsable());
    LogCall(operation, numbers, comm, stream);
    operation.communicator = &communicator;
    operation.stream = stream == nullptr ? nullptr : HostStream::From(stream);
    HZ_RETURN_IF_ERROR(Complete(numbers, comm, &operation));
    return Group::OfThisThread().Add(operation);
  });
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Collective;
using harmonaize::shim::CarriedOperation;
using harmonaize::shim::Number;
using harmonaize::shim::Post;

HZ_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAllReduce, sendbuff, recvbuff, count, datatype, op, comm, stream);
  HZ_CARRY_AS(ncclAllReduce, comm,
              CarriedOperation(comm, Collective::kAllReduce, count, Number(datatype), 0), sendbuff,
              recvbuff, count, datatype, op, carried, stream);
  return Post("ncclAllReduce", comm, stream, {Number(datatype), Number(op)},
              {.collective = Collective::kAllReduce,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count});
}

HZ_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
            cudaStream_t stream) {
  HZ_FORWARD(ncclReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  HZ_CARRY_AS(ncclReduce, comm,
              CarriedOperation(comm, Collective::kReduce, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, op, root, carried, stream);
  return Post("ncclReduce", comm, stream, {Number(datatype), Number(op)},
              {.collective = Collective::kReduce,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclBroadcast, sendbuff, recvbuff, count, datatype, root, comm, stream);
  HZ_CARRY_AS(ncclBroadcast, comm,
              CarriedOperation(comm, Collective::kBroadcast, count, Number(datatype), root),
              sendbuff, recvbuff, count, datatype, root, carried, stream);
  return Post("ncclBroadcast", comm, stream, {Number(datatype)},
              {.collective = Collective::kBroadcast,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclBcast, buff, count, datatype, root, comm, stream);
  HZ_CARRY_AS(ncclBcast, comm,
              CarriedOperation(comm, Collective::kBroadcast, count, Number(datatype), root), buff,
              count, datatype, root, carried, stream);
  return Post("ncclBcast", comm, stream, {Number(datatype)},
              {.collective = Collective::kBroadcast,
               .send = buff,
               .receive = buff,
               .count = count,
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAllGather, sendbuff, recvbuff, sendcount, datatype, comm, stream);
  HZ_CARRY_AS(ncclAllGather, comm,
              CarriedOperation(comm, Collective::kAllGather, sendcount, Number(datatype), 0),
              sendbuff, recvbuff, sendcount, datatype, carried, stream);
  return Post("ncclAllGather", comm, stream, {Number(datatype)},
              {.collective = Collective::kAllGather,
               .send = sendbuff,
               .receive = recvbuff,
               .count = sendcount});
}

HZ_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  HZ_CARRY_AS(ncclReduceScatter, comm,
              CarriedOperation(comm, Collective::kReduceScatter, recvcount, Number(datatype), 0),
              sendbuff, recvbuff, recvcount, datatype, op, carried, stream);
  return Post("ncclReduceScatter", comm, stream, {Number(datatype), Number(op)},
              {.collective = Collective::kReduceScatter,
               .send = sendbuff,
               .receive = recvbuff,
               .count = recvcount});
}

HZ_NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAlltoAll, sendbuff, recvbuff, count, datatype, comm, stream);
  HZ_CARRY_AS(ncclAlltoAll, comm,
              CarriedOperation(comm, Collective::kAllToAll, count, Number(datatype), 0), sendbuff,
              recvbuff, count, datatype, carried, stream);
  return Post(
      "ncclAlltoAll", comm, stream, {Number(datatype)},
      {.collective = Collective::kAllToAll, .send = sendbuff, .receive = recvbuff, .count = count});
}

HZ_NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclGather, sendbuff, recvbuff, count, datatype, root, comm, stream);
  HZ_CARRY_AS(ncclGather, comm,
              CarriedOperation(comm, Collective::kGather, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, root, carried, stream);
  return Post("ncclGather", comm, stream, {Number(datatype)},
              {.collective = Collective::kGather,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclScatter, sendbuff, recvbuff, count, datatype, root, comm, stream);
  HZ_CARRY_AS(ncclScatter, comm,
              CarriedOperation(comm, Collective::kScatter, count, Number(datatype), root), sendbuff,
              recvbuff, count, datatype, root, carried, stream);
  return Post("ncclScatter", comm, stream, {Number(datatype)},
              {.collective = Collective::kScatter,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype,
            int peer, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclSend, sendbuff, count, datatype, peer, comm, stream);
  HZ_CARRY_AS(ncclSend, comm,
              CarriedOperation(comm, Collective::kSend, count, Number(datatype), peer), sendbuff,
              count, datatype, peer, carried, stream);
  return Post("ncclSend", comm, stream, {Number(datatype)},
              {.collective = Collective::kSend, .send = sendbuff, .count = count, .root = peer});
}

HZ_NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclRecv, recvbuff, count, datatype, peer, comm, stream);
  HZ_CARRY_AS(ncclRecv, comm,
              CarriedOperation(comm, Collective::kReceive, count, Number(datatype), peer), recvbuff,
              count, datatype, peer, carried, stream);
  return Post(
      "ncclRecv", comm, stream, {Number(datatype)},
      {.collective = Collective::kReceive, .receive = recvbuff, .count = count, .root = peer});
}
