// Groups.

#include "src/client/operation/group.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "include/nccl.h"
#include "shim/adoption.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"

namespace harmonaize::shim {
namespace {

constexpr unsigned kSimulationMagic = 0x74685283;

Status Simulate(ncclSimInfo_t* simulation) {
  if (simulation != nullptr &&
      (simulation->magic != kSimulationMagic || simulation->size < sizeof *simulation)) {
    return InvalidArgument("simInfo was not initialized with NCCL_SIM_INFO_INITIALIZER");
  }
  HZ_ASSIGN_OR_RETURN(const double seconds, Group::OfThisThread().SimulateEnd());
  if (simulation != nullptr) simulation->estimatedTime = static_cast<float>(seconds * 1e6);
  return Status::Ok();
}

/// Ends a group in which stock NCCL may carry some of the operations. The daemon is shown what this
/// rank calls before anything may wait for other ranks.
ncclResult_t EndBoth() {
  Group& group = Group::OfThisThread();
  if (!group.outermost()) {
    return Call("ncclGroupEnd", nullptr, [&] { return group.End(); });
  }
  ncclResult_t stock = ncclSuccess;
  const ncclResult_t ours = Call("ncclGroupEnd", nullptr, [&] {
    StockGroup::OfThisThread().Show();
    const Status ended = group.End();
    stock = StockGroup::OfThisThread().End();
    return FinishAdoptions(ended);
  });
  return ours == ncclSuccess ? stock : ours;
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Group;
using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclGroupStart) {
  HZ_FORWARD(ncclGroupStart);
  return Call("ncclGroupStart", nullptr, [] {
    Group::OfThisThread().Start();
    return Status::Ok();
  });
}

HZ_NCCL_API(ncclResult_t, ncclGroupEnd) {
  HZ_FORWARD(ncclGroupEnd);
  if (ServesBoth()) return EndBoth();
  return Call("ncclGroupEnd", nullptr, [] { return Group::OfThisThread().End(); });
}

HZ_NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo) {
  HZ_FORWARD(ncclGroupSimulateEnd, simInfo);
  return Call("ncclGroupSimulateEnd", nullptr, [&] { return Simulate(simInfo); });
}
