#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "include/nccl.h"
#include "shim/life_lines.h"
#include "shim/offer_watch.h"
#include "shim/requirements.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

/// \file
/// Common parts of all calls of the NCCL face: how a call is exported, how it becomes a result and
/// a sentence, and how a handle is told from garbage.

/// Begins the definition of an API function: the body belongs to pncclX, and ncclX is a weak second
/// name for it, so that a profiler may define an ncclX of its own that calls pncclX.
#define HZ_NCCL_API(result, function, ...)                                                         \
  extern "C" [[gnu::visibility("default"), gnu::weak, gnu::alias("p" #function)]] result function( \
      __VA_ARGS__);                                                                                \
  extern "C" [[gnu::visibility("default")]] result p##function(__VA_ARGS__)

/// Begins the definition of a function of harmonaize.h.
#define HZ_API(result) extern "C" [[gnu::visibility("default")]] result

namespace harmonaize::shim {

class StockCommunicator;

/// A buffer that was passed to ncclCommRegister or ncclCommWindowRegister.
struct Registration {
  const void* address;
  size_t bytes;
};

}  // namespace harmonaize::shim

/// The object behind ncclComm_t. `state` detects handles that were destroyed or never made; like
/// NCCL's it is no defence against wild pointers.
namespace harmonaize::shim {

/// The offers that hzNextOffer tells of by one communicator. One thread calls at a time.
struct OffersOfHandle {
  std::unique_ptr<OfferWatch> watch;  ///< nullptr until the first call.
  OfferView last = {};                ///< What the caller's hzOffer_t points to.
};

}  // namespace harmonaize::shim

struct ncclComm {
  static constexpr uint64_t kAlive = 0x485a434f4d4d2131;

  std::atomic<uint64_t> state{0};
  /// Between ncclCommSuspend and ncclCommResume.
  std::atomic<bool> suspended{false};
  /// Stock NCCL's part, where that carries the operations; nullptr: the communicator is the
  /// daemon's. Set once, before the call that makes the handle has returned. `stock` keeps it.
  std::atomic<harmonaize::shim::StockCommunicator*> carrier{nullptr};
  std::shared_ptr<harmonaize::shim::StockCommunicator> stock;
  /// Number of references. One is the handle's own until it has ended. Others belong to threads
  /// that are making or destroying the handle, which another thread's ncclCommAbort may interrupt.
  std::atomic<int> references{1};
  std::unique_ptr<harmonaize::Communicator> communicator;
  harmonaize::shim::Birth birth;
  std::atomic<bool> complete_logged{false};
  harmonaize::shim::StatedRequirements stated_requirements;
  /// Communicators made from this one so far, for logs.
  int children = 0;
  /// Operations so far, for logs. The caller orders the calls on one communicator.
  uint64_t operations = 0;
  /// Addresses of scalars, by operator, that each operation reads anew.
  std::unordered_map<int, const void*> deferred_scalars;
  harmonaize::shim::OffersOfHandle offers;
  std::mutex registrations_mutex;
  std::vector<std::unique_ptr<harmonaize::shim::Registration>> registrations;
};

namespace harmonaize::shim {

/// Returns the number in an enumeration that a caller passed. In C it may be any number, but in C++
/// reading a value that the enumeration cannot hold is undefined.
template <typename Enumeration>
int Number(const Enumeration& value) {
  int number;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// Returns the NCCL result for a status: kUnavailable is ncclSystemError, all others have their
/// own.
ncclResult_t ToResult(const Status& status);

/// Stores a failure's text for ncclGetLastError (of this thread, and of `comm` unless it is NULL),
/// logs it, makes an open group fail, and returns the result.
ncclResult_t ConcludeFailure(const char* function, ncclComm_t comm, const Status& status);

/// Returns the result of a call.
inline ncclResult_t Conclude(const char* function, ncclComm_t comm, const Status& status) {
  return status.ok() ? ncclSuccess : ConcludeFailure(function, comm, status);
}

/// Returns the last error's text of `comm`, else of this thread, else of any thread; valid until
/// this thread asks again.
const char* LastErrorText(ncclComm_t comm) noexcept;

/// Returns whether `comm` is a live communicator.
inline bool IsAlive(ncclComm_t comm) {
  // Acquire: a thread may find the handle while another one is still inside the call that makes it.
  return comm != nullptr && comm->state.load(std::memory_order_acquire) == ncclComm::kAlive;
}
/// Returns kInvalidArgument unless `comm` is alive.
Status CheckHandle(ncclComm_t comm);

/// Returns kInvalidArgument, with the argument's name, when `pointer` is NULL.
inline Status CheckPointer(const void* pointer, const char* name) {
  return pointer != nullptr ? Status::Ok() : InvalidArgument("{} is NULL", name);
}

/// Returns kInvalidUsage between ncclCommSuspend and ncclCommResume. Requires: `comm` is alive.
inline Status CheckNotSuspended(ncclComm_t comm) {
  if (!comm->suspended.load(std::memory_order_relaxed)) return Status::Ok();
  return InvalidUsage("the communicator is suspended: call ncclCommResume first");
}

/// Returns kInvalidUsage for a part of NCCL that Harmonaize does not have. `instead` says what a
/// program can do, as a whole clause.
inline Status NotServed(std::string_view what, std::string_view instead) {
  return InvalidUsage("Harmonaize does not have {}: {}", what, instead);
}

/// Shows the rank of `communicator` in the lines that this thread logs from here on.
void ShowRankOf(const Communicator& communicator);

/// Ends a call that threw. If there is no memory even for the error's text, the text is `function`.
/// Requires: the exception is being handled.
ncclResult_t ConcludeException(const char* function, ncclComm_t comm) noexcept;

/// Runs `body`, which returns a Status, as the API function `function`. No exception leaves it.
/// `comm`, unless NULL, stores a failure's text.
template <typename Body>
ncclResult_t Call(const char* function, ncclComm_t comm, Body&& body) noexcept {
  try {
    return Conclude(function, comm, body());
  } catch (...) {
    return ConcludeException(function, comm);
  }
}

/// Call for a function on a communicator, which `body` gets checked. While it runs, the thread is
/// inside the communicator by the object that `enter` makes.
template <typename Enter, typename Body>
ncclResult_t CallInside(const char* function, ncclComm_t comm, Enter&& enter,
                        Body&& body) noexcept {
  if (!IsAlive(comm)) return Call(function, nullptr, [&] { return CheckHandle(comm); });
  Communicator* const communicator = comm->communicator.get();
  const auto inside = enter(communicator);
  ShowRankOf(*communicator);
  return Call(function, comm, [&] { return body(*communicator); });
}

/// CallInside for any function.
template <typename Body>
ncclResult_t CallOn(const char* function, ncclComm_t comm, Body&& body) noexcept {
  const auto enter = [](Communicator* communicator) { return InUse(communicator); };
  return CallInside(function, comm, enter, body);
}

/// CallInside for a function that posts an operation: one thread at a time does that on a
/// communicator.
template <typename Body>
ncclResult_t PostOn(const char* function, ncclComm_t comm, Body&& body) noexcept {
  const auto enter = [](Communicator* const& communicator) {
    return InOperation({&communicator, 1});
  };
  return CallInside(function, comm, enter, body);
}

}  // namespace harmonaize::shim
