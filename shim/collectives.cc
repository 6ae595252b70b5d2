// The operations. Each call fills a Request; what follows is the same for all.

#include <cstring>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/collective.h"
#include "src/base/log.h"
#include "src/base/status.h"
#include "src/client/communicator.h"
#include "src/client/group.h"
#include "src/client/operation.h"
#include "src/client/stream.h"
#include "src/numerics/types.h"

namespace harmonaize::shim {
namespace {

// NCCL's numbers for types and operators are ours.
static_assert(static_cast<int>(ncclFloat8e5m2) == static_cast<int>(DataType::kFloat8E5M2));
static_assert(static_cast<int>(ncclNumTypes) == kDataTypeCount);
static_assert(static_cast<int>(ncclAvg) == static_cast<int>(ReduceOperator::kAvg));
static_assert(static_cast<int>(ncclNumOps) == Communicator::kFirstUserOperator);

/// The arguments of one call; what a collective does not have stays as it is here.
struct Request {
  Collective collective;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  int type = ncclInt8;  ///< ncclDataType_t and
  int op = ncclSum;     ///< ncclRedOp_t, not yet checked.
  int root = 0;         ///< Or the peer.
};

Status CheckRoot(const Request& request, int ranks) {
  const bool has_peer = IsPointToPoint(request.collective);
  if (!has_peer && !HasRoot(request.collective)) return Status::Ok();
  if (request.root >= 0 && request.root < ranks) return Status::Ok();
  return InvalidArgument("{} is {}, not in [0, {})", has_peer ? "peer" : "root", request.root,
                         ranks);
}

/// `blocks` blocks of the request's count at `buffer`: there, and not beyond the address space.
Status CheckBuffer(const Request& request, const void* buffer, uint64_t blocks, const char* name) {
  if (blocks == 0 || request.count == 0) return Status::Ok();
  HZ_RETURN_IF_ERROR(CheckPointer(buffer, name));
  const uint64_t element = DataTypeSize(static_cast<DataType>(request.type));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(request.count, element, &bytes) ||
      __builtin_mul_overflow(bytes, blocks, &bytes)) {
    return InvalidArgument("count is {}: {} blocks of {} bytes an element are more than memory",
                           request.count, blocks, element);
  }
  return Status::Ok();
}

Status Check(const Request& request, const Communicator& communicator) {
  if (request.type < 0 || request.type >= ncclNumTypes) {
    return InvalidArgument("datatype is {}, not in [0, {})", request.type,
                           static_cast<int>(ncclNumTypes));
  }
  HZ_RETURN_IF_ERROR(CheckRoot(request, communicator.ranks()));
  const BufferBlocks blocks =
      BlocksOf(request.collective, communicator.ranks(), communicator.rank(), request.root);
  HZ_RETURN_IF_ERROR(CheckBuffer(request, request.send, blocks.send, "sendbuff"));
  return CheckBuffer(request, request.receive, blocks.receive, "recvbuff");
}

/// The operator, and the scalar of one that ncclRedOpCreatePreMulSum made.
Status ResolveOperator(const Request& request, ncclComm_t comm, Operation* operation) {
  if (!Reduces(request.collective)) return Status::Ok();
  const int op = request.op;
  if (op < 0) return InvalidArgument("op is {}", op);
  if (op < ncclNumOps) {
    operation->op = static_cast<ReduceOperator>(op);
    return Status::Ok();
  }
  const Result<uint64_t> scalar = comm->communicator->PreMulSumScalar(op, operation->type);
  if (!scalar.ok()) return scalar.status();
  operation->op = ReduceOperator::kPreMulSum;
  operation->scalar = *scalar;
  if (const auto deferred = comm->deferred_scalars.find(op);
      deferred != comm->deferred_scalars.end()) {
    operation->scalar = 0;
    std::memcpy(&operation->scalar, deferred->second, DataTypeSize(operation->type));
  }
  return Status::Ok();
}

void LogRequest(const Request& request, ncclComm_t comm, cudaStream_t stream) {
  const uint64_t number = comm->operations++;
  Log(LogLevel::kInfo, kLogCollective,
      "{}: opCount {:x} sendbuff {} recvbuff {} count {} datatype {} op {} root {} comm {} "
      "[nranks={}] stream {}",
      CollectiveName(request.collective), number, fmt::ptr(request.send), fmt::ptr(request.receive),
      request.count, request.type, request.op, request.root, fmt::ptr(comm),
      comm->communicator->ranks(), fmt::ptr(stream));
}

ncclResult_t Post(const char* function, ncclComm_t comm, cudaStream_t stream,
                  const Request& request) {
  return PostOn(function, comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(communicator.CheckUsable());
    LogRequest(request, comm, stream);
    HZ_RETURN_IF_ERROR(Check(request, communicator));
    Operation operation;
    operation.collective = request.collective;
    operation.send = request.send;
    operation.receive = request.receive;
    operation.count = request.count;
    operation.type = static_cast<DataType>(request.type);
    operation.root = request.root;
    operation.communicator = &communicator;
    operation.stream = stream == nullptr ? nullptr : HostStream::From(stream);
    HZ_RETURN_IF_ERROR(ResolveOperator(request, comm, &operation));
    return Group::OfThisThread().Add(operation);
  });
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Collective;
using harmonaize::shim::Number;
using harmonaize::shim::Post;

HZ_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAllReduce, sendbuff, recvbuff, count, datatype, op, comm, stream);
  return Post("ncclAllReduce", comm, stream,
              {.collective = Collective::kAllReduce,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .op = Number(op)});
}

HZ_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
            cudaStream_t stream) {
  HZ_FORWARD(ncclReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  return Post("ncclReduce", comm, stream,
              {.collective = Collective::kReduce,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .op = Number(op),
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclBroadcast, sendbuff, recvbuff, count, datatype, root, comm, stream);
  return Post("ncclBroadcast", comm, stream,
              {.collective = Collective::kBroadcast,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclBcast, buff, count, datatype, root, comm, stream);
  return Post("ncclBcast", comm, stream,
              {.collective = Collective::kBroadcast,
               .send = buff,
               .receive = buff,
               .count = count,
               .type = Number(datatype),
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAllGather, sendbuff, recvbuff, sendcount, datatype, comm, stream);
  return Post("ncclAllGather", comm, stream,
              {.collective = Collective::kAllGather,
               .send = sendbuff,
               .receive = recvbuff,
               .count = sendcount,
               .type = Number(datatype)});
}

HZ_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  return Post("ncclReduceScatter", comm, stream,
              {.collective = Collective::kReduceScatter,
               .send = sendbuff,
               .receive = recvbuff,
               .count = recvcount,
               .type = Number(datatype),
               .op = Number(op)});
}

HZ_NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclAlltoAll, sendbuff, recvbuff, count, datatype, comm, stream);
  return Post("ncclAlltoAll", comm, stream,
              {.collective = Collective::kAllToAll,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype)});
}

HZ_NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclGather, sendbuff, recvbuff, count, datatype, root, comm, stream);
  return Post("ncclGather", comm, stream,
              {.collective = Collective::kGather,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclScatter, sendbuff, recvbuff, count, datatype, root, comm, stream);
  return Post("ncclScatter", comm, stream,
              {.collective = Collective::kScatter,
               .send = sendbuff,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .root = root});
}

HZ_NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype,
            int peer, ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclSend, sendbuff, count, datatype, peer, comm, stream);
  return Post("ncclSend", comm, stream,
              {.collective = Collective::kSend,
               .send = sendbuff,
               .count = count,
               .type = Number(datatype),
               .root = peer});
}

HZ_NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclComm_t comm, cudaStream_t stream) {
  HZ_FORWARD(ncclRecv, recvbuff, count, datatype, peer, comm, stream);
  return Post("ncclRecv", comm, stream,
              {.collective = Collective::kReceive,
               .receive = recvbuff,
               .count = count,
               .type = Number(datatype),
               .root = peer});
}
