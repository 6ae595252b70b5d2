// harmonaize.h: ranks that are lost.

#include <algorithm>

#include "include/harmonaize.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {
namespace {

/// Returns kInvalidUsage for a communicator of stock NCCL.
Status CheckOurs(ncclComm_t comm) {
  if (comm->carrier.load() == nullptr) return Status::Ok();
  return NotServed("the lost ranks of a communicator that stock NCCL carries",
                   "ncclCommGetAsyncError tells that it has failed");
}

Status StoreLostRanks(Communicator& communicator, int most, int* ranks, int* count) {
  HZ_RETURN_IF_ERROR(CheckPointer(count, "count"));
  if (most < 0) return InvalidArgument("most is {}, less than 0", most);
  if (most > 0) HZ_RETURN_IF_ERROR(CheckPointer(ranks, "ranks"));
  HZ_ASSIGN_OR_RETURN(const Communicator::LostRanks lost, communicator.FindLostRanks());
  const size_t stored = std::min(lost.ranks.size(), static_cast<size_t>(most));
  std::copy_n(lost.ranks.begin(), stored, ranks);
  *count = lost.count;
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_API(ncclResult_t) hzLostRanks(ncclComm_t comm, int most, int* ranks, int* count) {
  if (Forwarding()) {
    return Call("hzLostRanks", nullptr, [] {
      return harmonaize::InvalidUsage("calls go to stock NCCL, which does not tell lost ranks");
    });
  }
  return CallOn("hzLostRanks", comm, [&](Communicator& communicator) -> harmonaize::Status {
    HZ_RETURN_IF_ERROR(CheckOurs(comm));
    return StoreLostRanks(communicator, most, ranks, count);
  });
}
