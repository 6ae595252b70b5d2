#include "shim/adoption.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "shim/cuda_context.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "shim/stock_library.h"
#include "src/base/log.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/group.h"

namespace harmonaize::shim {
namespace {

/// Bytes of a program's ncclConfig_t that are kept until its group ends: several times what any
/// NCCL has.
constexpr size_t kMostConfigBytes = 4096;
/// Time between two looks at what goes on by itself, in microseconds: short beside the milliseconds
/// that making a communicator takes.
constexpr int kLookEveryMicroseconds = 100;

/// A communicator of ours that waits for the decision.
struct Candidate {
  ncclComm_t* out = nullptr;
  std::vector<std::byte> config;
  CudaContext context;
  /// What rank 0 tells the others.
  struct Invitation {
    int32_t holds = 0;  ///< 0: stock NCCL has made no id.
    ncclUniqueId id = {};
  };
  Invitation invitation;
  // Stock NCCL's part.
  ncclComm_t made = nullptr;
};

/// One that was made from a parent that stock NCCL carries.
struct Child {
  ncclComm_t* out;
  std::unique_ptr<ncclComm_t> made;
};

struct PutOff {
  std::vector<Candidate> candidates;
  std::vector<Child> children;
};

PutOff& PutOffOfThisThread() {
  thread_local PutOff put_off;
  return put_off;
}

Status StockStatus(const char* function, ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return Status::Ok();
  static const StockFunction<const char*(ncclComm_t)> last_error("ncclGetLastError");
  const char* const text = last_error(nullptr);
  return SystemError("stock NCCL: {} returned {}: {}", function, Number(result),
                     text != nullptr ? text : "");
}

/// Waits for a non-blocking communicator of stock NCCL.
Status AwaitStock(ncclComm_t made) {
  static const StockFunction<ncclResult_t(ncclComm_t, ncclResult_t*)> state_of(
      "ncclCommGetAsyncError");
  ncclResult_t state = ncclInProgress;
  while (true) {
    HZ_RETURN_IF_ERROR(StockStatus("ncclCommGetAsyncError", state_of(made, &state)));
    if (state != ncclInProgress) return StockStatus("the making of a communicator", state);
    std::this_thread::sleep_for(std::chrono::microseconds(kLookEveryMicroseconds));
  }
}

/// Waits for the exchange on a non-blocking communicator of ours.
Status AwaitOurs(Communicator* communicator) {
  Status state = communicator->AsyncState();
  while (state.code() == Code::kInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(kLookEveryMicroseconds));
    state = communicator->AsyncState();
  }
  return state;
}

Communicator& OursOf(const Candidate& candidate) {
  return *(*candidate.out)->communicator;
}

/// Has rank 0 make an id of stock NCCL's.
void Invite(Candidate* candidate) {
  if (OursOf(*candidate).rank() != 0) return;
  static const StockFunction<ncclResult_t(ncclUniqueId*)> get_id("ncclGetUniqueId");
  const Status got = StockStatus("ncclGetUniqueId", get_id(&candidate->invitation.id));
  if (!got.ok()) return Log(LogLevel::kWarning, kLogInit, "{}", got.message());
  candidate->invitation.holds = 1;
}

/// Lets rank 0 tell the other ranks the id, on all communicators at once.
Status TellInvitations(std::span<Candidate*> candidates) {
  Group& group = Group::OfThisThread();
  group.Start();
  for (Candidate* const candidate : candidates) {
    Invite(candidate);
    group.NoteFailure(group.Add({.collective = Collective::kBroadcast,
                                 .send = &candidate->invitation,
                                 .receive = &candidate->invitation,
                                 .count = sizeof candidate->invitation,
                                 .root = 0,
                                 .communicator = &OursOf(*candidate)}));
  }
  const Status ended = group.End();
  if (ended.code() != Code::kInProgress) return ended;
  for (const Candidate* const candidate : candidates) {
    HZ_RETURN_IF_ERROR(AwaitOurs(&OursOf(*candidate)));
  }
  return Status::Ok();
}

Status Attach(ncclComm_t comm, ncclComm_t made) {
  HZ_ASSIGN_OR_RETURN(comm->stock, StockCommunicator::Make(made, comm->communicator.get()));
  // Release: a thread that sees the carrier sees all of it.
  comm->carrier.store(comm->stock.get(), std::memory_order_release);
  Log(LogLevel::kInfo, kLogInit, "comm {} rank {} nranks {}: stock NCCL carries the operations",
      fmt::ptr(comm), comm->communicator->rank(), comm->communicator->ranks());
  return Status::Ok();
}

/// Makes stock NCCL's parts of what it carries, in one group.
Status MakeStockParts(std::span<Candidate*> carried) {
  static const StockFunction<ncclResult_t()> start("ncclGroupStart");
  static const StockFunction<ncclResult_t()> end("ncclGroupEnd");
  static const StockFunction<decltype(ncclCommInitRankConfig)> init("ncclCommInitRankConfig");
  const CudaContext before = CudaContext::OfThisThread();
  HZ_RETURN_IF_ERROR(StockStatus("ncclGroupStart", start()));
  Status status;
  for (Candidate* const candidate : carried) {
    const Communicator& ours = *(*candidate->out)->communicator;
    auto* const config = reinterpret_cast<ncclConfig_t*>(
        candidate->config.empty() ? nullptr : candidate->config.data());
    status = candidate->context.MakeCurrent();
    if (status.ok()) {
      status = StockStatus(
          "ncclCommInitRankConfig",
          init(&candidate->made, ours.ranks(), candidate->invitation.id, ours.rank(), config));
    }
    if (!status.ok()) break;
  }
  const Status ended = StockStatus("ncclGroupEnd", end());
  static_cast<void>(before.MakeCurrent());
  HZ_RETURN_IF_ERROR(status);
  HZ_RETURN_IF_ERROR(ended);
  for (Candidate* const candidate : carried) {
    HZ_RETURN_IF_ERROR(AwaitStock(candidate->made));
    HZ_RETURN_IF_ERROR(Attach(*candidate->out, candidate->made));
  }
  return Status::Ok();
}

/// Waits until all have formed, and returns those of them whose ranks all could go to stock NCCL.
Result<std::vector<Candidate*>> AwaitFormed(std::span<Candidate> candidates) {
  std::vector<Candidate*> ready;
  for (Candidate& candidate : candidates) {
    Communicator& ours = OursOf(candidate);
    const InUse in_use(&ours);
    HZ_RETURN_IF_ERROR(ours.AwaitReady());
    if (ours.all_on_gpu()) {
      ready.push_back(&candidate);
      continue;
    }
    Log(LogLevel::kWarning, kLogInit,
        "comm {}: not all ranks use a GPU and find stock NCCL, so the daemon carries it, which "
        "takes host memory alone",
        fmt::ptr(*candidate.out));
  }
  return ready;
}

Status DecideOn(std::span<Candidate> candidates) {
  HZ_ASSIGN_OR_RETURN(std::vector<Candidate*> carried, AwaitFormed(candidates));
  if (carried.empty()) return Status::Ok();
  HZ_RETURN_IF_ERROR(TellInvitations(carried));
  std::erase_if(carried, [](const Candidate* one) { return one->invitation.holds == 0; });
  return carried.empty() ? Status::Ok() : MakeStockParts(carried);
}

/// Decides on the candidates, and gives all of them up if that fails.
Status Finish(std::vector<Candidate> candidates) {
  // What failed to form has no handle.
  std::erase_if(candidates, [](const Candidate& one) { return *one.out == nullptr; });
  if (candidates.empty()) return Status::Ok();
  const Status status = DecideOn(candidates);
  if (status.ok()) return status;
  for (const Candidate& candidate : candidates) GiveUp(candidate.out);
  return status;
}

Status Finish(const Child& child) {
  if (*child.made == nullptr) return Status::Ok();
  if (*child.out == nullptr) {
    static const StockFunction<decltype(ncclCommAbort)> abort("ncclCommAbort");
    return StockStatus("ncclCommAbort", abort(*child.made));
  }
  Status status = AwaitStock(*child.made);
  if (status.ok()) status = Attach(*child.out, *child.made);
  if (!status.ok()) GiveUp(child.out);
  return status;
}

Status FinishOrPutOff(Child child) {
  if (!Group::OfThisThread().open()) return Finish(child);
  PutOffOfThisThread().children.push_back(std::move(child));
  return Status::Ok();
}

}  // namespace

Status Adopt(ncclComm_t* out, const ncclConfig_t* config) {
  Candidate candidate;
  candidate.out = out;
  candidate.context = CudaContext::OfThisThread();
  if (config != nullptr) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(config);
    candidate.config.assign(bytes, bytes + std::min(config->size, kMostConfigBytes));
  }
  std::vector<Candidate>& candidates = PutOffOfThisThread().candidates;
  candidates.push_back(std::move(candidate));
  if (Group::OfThisThread().open()) return Status::Ok();
  return Finish(std::exchange(candidates, {}));
}

Status AdoptAll(ncclComm_t* comms, int count, const int* devices) {
  if (!StockCouldCarry()) return Status::Ok();
  static const StockFunction<decltype(ncclCommInitAll)> init("ncclCommInitAll");
  std::vector<ncclComm_t> made(static_cast<size_t>(count));
  Status status = StockStatus("ncclCommInitAll", init(made.data(), count, devices));
  for (int rank = 0; rank < count && status.ok(); ++rank) {
    status = Attach(comms[rank], made[static_cast<size_t>(rank)]);
  }
  for (int rank = 0; rank < count && !status.ok(); ++rank) GiveUp(&comms[rank]);
  return status;
}

Status AdoptSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  StockCommunicator* const carrier = parent->carrier.load(std::memory_order_acquire);
  if (carrier == nullptr) return Status::Ok();
  static const StockFunction<decltype(ncclCommSplit)> split("ncclCommSplit");
  Child child{out, std::make_unique<ncclComm_t>(nullptr)};
  HZ_RETURN_IF_ERROR(StockStatus("ncclGroupStart", StockGroup::OfThisThread().Enter(*carrier)));
  HZ_RETURN_IF_ERROR(
      StockStatus("ncclCommSplit", split(carrier->handle(), color, key, child.made.get(), config)));
  return FinishOrPutOff(std::move(child));
}

Status AdoptShrink(ncclComm_t parent, int* excluded, int count, ncclComm_t* out,
                   ncclConfig_t* config, int flags) {
  StockCommunicator* const carrier = parent->carrier.load(std::memory_order_acquire);
  if (carrier == nullptr) return Status::Ok();
  static const StockFunction<decltype(ncclCommShrink)> shrink("ncclCommShrink");
  Child child{out, std::make_unique<ncclComm_t>(nullptr)};
  HZ_RETURN_IF_ERROR(StockStatus("ncclGroupStart", StockGroup::OfThisThread().Enter(*carrier)));
  HZ_RETURN_IF_ERROR(StockStatus("ncclCommShrink", shrink(carrier->handle(), excluded, count,
                                                          child.made.get(), config, flags)));
  return FinishOrPutOff(std::move(child));
}

Status FinishAdoptions(const Status& group_ended) {
  PutOff put_off = std::exchange(PutOffOfThisThread(), {});
  if (put_off.candidates.empty() && put_off.children.empty()) return group_ended;
  Status status = group_ended.code() == Code::kInProgress ? Status::Ok() : group_ended;
  for (const Child& child : put_off.children) {
    const Status finished = Finish(child);
    if (status.ok()) status = finished;
  }
  if (!group_ended.ok() && group_ended.code() != Code::kInProgress) return status;
  const Status decided = Finish(std::move(put_off.candidates));
  return status.ok() ? decided : status;
}

}  // namespace harmonaize::shim
