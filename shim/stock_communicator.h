#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_library.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/operation.h"
#include "src/client/operation/stream.h"

/// \file
/// Communicators whose operations stock NCCL carries, beside a communicator of ours with the same
/// ranks. Ours carries no data. It is the witness: for each operation the rank also posts one of
/// ours with no elements, which nobody waits for. So the daemon sees which rank has not called
/// what, who is stopped or dead, and who disagrees about what, as it does for its own
/// communicators.

namespace harmonaize::shim {

class StockCommunicator : public std::enable_shared_from_this<StockCommunicator> {
 public:
  /// `handle` is stock NCCL's, and `witness` outlives this object. Errors: no host stream is to be
  /// had.
  static Result<std::shared_ptr<StockCommunicator>> Make(ncclComm_t handle, Communicator* witness);
  ~StockCommunicator() { CloseStream(); }
  StockCommunicator(const StockCommunicator&) = delete;
  StockCommunicator& operator=(const StockCommunicator&) = delete;

  ncclComm_t handle() const { return handle_; }

  /// Lets the daemon see that this rank calls an operation. Failures are kept for Failure. Thread:
  /// the one that posts on the communicator.
  void Witness(Collective collective, int root);
  /// Counts an operation, or the end of a group with operations, for `harmonaize status`.
  void Count(uint64_t calls, uint64_t bytes, std::chrono::nanoseconds inside);

  /// Returns the first failure that the daemon has told of: ranks that died or disagree. A daemon
  /// that is gone is none. Thread: any.
  Status Failure();
  /// Keeps a failure of showing an operation for Failure.
  void KeepFailure(const Status& status);

  /// Ends the showing and counting of operations, for good. To be called before the witness leaves.
  void Retire();
  /// Waits for the operations that were shown, and ends the witness's stream.
  void CloseStream();

 private:
  StockCommunicator(ncclComm_t handle, Communicator* witness, HostStream* stream)
      : handle_(handle), witness_(witness), stream_(stream) {}

  /// Returns the stream for operations that are shown; nullptr: none are any more. It stays for as
  /// long as the caller is inside the communicator.
  HostStream* StreamInUse();

  const ncclComm_t handle_;
  Communicator* const witness_;
  std::mutex mutex_;  // guards what follows
  HostStream* stream_;
  bool retired_ = false;
  Status failure_;
};

/// The stock group of this thread, opened with the first operation that stock NCCL carries inside a
/// group of ours.
class StockGroup {
 public:
  static StockGroup& OfThisThread();

  /// Opens the group, if this thread has a group of ours open, and notes who is used in it. Returns
  /// the result of stock NCCL.
  ncclResult_t Enter(StockCommunicator& user);
  bool open() const { return open_; }
  /// Keeps an operation of the group for Show.
  void Note(const Operation& shown) { shown_.push_back(shown); }
  /// Shows the daemon the operations so far, together: their order in the group does not matter.
  void Show();
  /// Shows the operations, closes the group, if it is open, and waits as stock NCCL does.
  ncclResult_t End();

 private:
  bool open_ = false;
  std::vector<std::shared_ptr<StockCommunicator>> users_;
  std::vector<Operation> shown_;
};

/// Keeps the sentence of a failed call of stock NCCL for ncclGetLastError, and returns `result`.
ncclResult_t ConcludeStock(const char* function, ncclComm_t comm, ncclResult_t result);

/// What a call does, for the witness and the counts.
struct CarriedCall {
  bool is_operation = false;
  Collective collective = Collective::kAllReduce;
  int root = 0;
  uint64_t bytes = 0;
};
/// Returns the description of an operation of `count` elements a block.
CarriedCall CarriedOperation(ncclComm_t comm, Collective collective, uint64_t count, int type,
                             int root);

/// Hands a call to stock NCCL. `body` makes the call.
template <typename Body>
ncclResult_t Carry(const char* function, ncclComm_t comm, const CarriedCall& call,
                   Body&& body) noexcept {
  try {
    StockCommunicator& stock = *comm->carrier.load(std::memory_order_acquire);
    const InUse inside(comm->communicator.get());
    if (!call.is_operation) return ConcludeStock(function, comm, body());
    const ncclResult_t entered = StockGroup::OfThisThread().Enter(stock);
    if (entered != ncclSuccess) return ConcludeStock(function, comm, entered);
    stock.Witness(call.collective, call.root);
    const auto start = std::chrono::steady_clock::now();
    const ncclResult_t result = body();
    stock.Count(1, call.bytes, std::chrono::steady_clock::now() - start);
    return ConcludeStock(function, comm, result);
  } catch (...) {
    return ConcludeException(function, comm);
  }
}

/// Returns whether stock NCCL carries the operations of `comm`.
inline bool IsCarried(ncclComm_t comm) {
  return ServesBoth() && IsAlive(comm) && comm->carrier.load(std::memory_order_acquire) != nullptr;
}

}  // namespace harmonaize::shim

/// Returns from the API function with the result of stock NCCL, when that carries `comm`. `call` is
/// a CarriedCall. The arguments that follow are those of the function, with `carried` for `comm`.
#define HZ_CARRY_AS(function, comm, call, ...)                                                   \
  if (::harmonaize::shim::IsCarried(comm)) {                                                     \
    static const ::harmonaize::shim::StockFunction<decltype(p##function)> stock(#function);      \
    const ncclComm_t carried = (comm)->carrier.load()->handle();                                 \
    return ::harmonaize::shim::Carry(#function, comm, call, [&] { return stock(__VA_ARGS__); }); \
  }                                                                                              \
  static_assert(true)

/// HZ_CARRY_AS for a function that is no operation.
#define HZ_CARRY(function, comm, ...) \
  HZ_CARRY_AS(function, comm, ::harmonaize::shim::CarriedCall(), __VA_ARGS__)

/// HZ_CARRY for a function that returns no ncclResult_t.
#define HZ_CARRY_QUERY(function, comm, ...)                                                 \
  if (::harmonaize::shim::IsCarried(comm)) {                                                \
    static const ::harmonaize::shim::StockFunction<decltype(p##function)> stock(#function); \
    const ncclComm_t carried = (comm)->carrier.load()->handle();                            \
    return stock(__VA_ARGS__);                                                              \
  }                                                                                         \
  static_assert(true)

/// For a function that is about GPUs and names no communicator: goes to stock NCCL where the thread
/// uses a GPU and that is found.
#define HZ_CARRY_UNBOUND(function, ...)                                                     \
  if (::harmonaize::shim::ServesBoth() && ::harmonaize::shim::StockCouldCarry()) {          \
    static const ::harmonaize::shim::StockFunction<decltype(p##function)> stock(#function); \
    return stock(__VA_ARGS__);                                                              \
  }                                                                                         \
  static_assert(true)
