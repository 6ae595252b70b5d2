#include "daemon/communicator/operation_pool.h"

#include <algorithm>
#include <cstdint>

namespace harmonaize::daemon {
namespace {

/// Bytes that an operation's places for one rank take: its part, buffers and scalar.
constexpr int64_t kRankOfOperationBytes = 64;

}  // namespace

Result<MatchedOperation*> OperationPool::Take(size_t parts, size_t ranks) {
  if (free_.empty()) {
    HZ_RETURN_IF_ERROR(pay_(static_cast<int64_t>(sizeof(MatchedOperation))));
    all_.push_back(std::make_unique<MatchedOperation>());
    free_.push_back(all_.back().get());
  }
  MatchedOperation* operation = free_.back();
  // Its lists keep the memory of the largest operation that it has been.
  if (const size_t places = std::max(parts, ranks); places > operation->places) {
    HZ_RETURN_IF_ERROR(
        pay_(kRankOfOperationBytes * static_cast<int64_t>(places - operation->places)));
    operation->places = places;
  }
  free_.pop_back();
  operation->communicator = communicator_;
  operation->sequence = 0;
  operation->parts.assign(parts, nullptr);
  operation->arrived = 0;
  operation->ready = 0;
  operation->doomed = false;
  operation->in_turn = false;
  operation->next_report_ns = 0;
  operation->verdict = Status::Ok();
  operation->feed.Clear();
  operation->started_ns = 0;
  NetworkRun& network = operation->network;
  network.plan = nullptr;
  network.execution = nullptr;
  network.reported = false;
  network.told = false;
  network.done_here = false;
  network.late_ranks.clear();
  return operation;
}

void OperationPool::GiveBack(MatchedOperation* operation) {
  operation->waiting.Reset();
  free_.push_back(operation);
}

}  // namespace harmonaize::daemon
