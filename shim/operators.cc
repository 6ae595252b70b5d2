// Operators that a program makes.

#include <cstring>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"
#include "src/numerics/types.h"

namespace harmonaize::shim {
namespace {

Status CreatePreMulSum(ncclComm_t comm, ncclRedOp_t* op, const void* scalar, int type,
                       int residence) {
  HZ_RETURN_IF_ERROR(CheckPointer(op, "op"));
  HZ_RETURN_IF_ERROR(CheckPointer(scalar, "scalar"));
  if (type < 0 || type >= ncclNumTypes) return InvalidArgument("datatype is {}", type);
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
    return InvalidArgument("residence is {}", residence);
  }
  const auto data_type = static_cast<DataType>(type);
  uint64_t bits = 0;
  if (residence == ncclScalarHostImmediate) std::memcpy(&bits, scalar, DataTypeSize(data_type));
  HZ_ASSIGN_OR_RETURN(const int made, comm->communicator->AddPreMulSum(data_type, bits));
  if (residence == ncclScalarDevice) comm->deferred_scalars[made] = scalar;
  *op = static_cast<ncclRedOp_t>(made);
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using harmonaize::InvalidArgument;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
            ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  HZ_FORWARD(ncclRedOpCreatePreMulSum, op, scalar, datatype, residence, comm);
  HZ_CARRY(ncclRedOpCreatePreMulSum, comm, op, scalar, datatype, residence, carried);
  return CallOn("ncclRedOpCreatePreMulSum", comm, [&](Communicator&) {
    return CreatePreMulSum(comm, op, scalar, Number(datatype), Number(residence));
  });
}

HZ_NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  HZ_FORWARD(ncclRedOpDestroy, op, comm);
  HZ_CARRY(ncclRedOpDestroy, comm, op, carried);
  return CallOn("ncclRedOpDestroy", comm, [&](Communicator& communicator) {
    const int number = Number(op);
    if (number >= 0 && number < ncclNumOps) {
      return InvalidArgument("op {} is built in", number);
    }
    comm->deferred_scalars.erase(number);
    return communicator.RemovePreMulSum(number);
  });
}
