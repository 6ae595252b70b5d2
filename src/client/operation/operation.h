#pragma once

#include <cstdint>

#include "src/base/collective.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/stream.h"
#include "src/numerics/types.h"

namespace harmonaize {

/// One call of a collective, checked by the face: pointers as the caller gave them.
struct Operation {
  Collective collective = Collective::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  uint64_t count = 0;  ///< Elements of one block, as in NCCL's call.
  DataType type = DataType::kInt8;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t scalar = 0;  ///< kPreMulSum: the bits of one element.
  int root = 0;         ///< Root, or the peer of a send or a receive.
  Communicator* communicator = nullptr;
  HostStream* stream = nullptr;  ///< nullptr: complete before the call (or its group) returns.
  bool offload = false;          ///< Goes to the daemon even if the ranks could do it themselves.
};

}  // namespace harmonaize
