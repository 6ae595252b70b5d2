// Communicators: made, divided, shrunk, grown, queried, ended.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <utility>

#include "include/nccl.h"
#include "shim/adoption.h"
#include "shim/config.h"
#include "shim/debug_log.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/life_lines.h"
#include "shim/requirements.h"
#include "shim/stock_communicator.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"
#include "src/client/operation/group.h"
#include "src/client/session/requirements_file.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::shim {
namespace {

using MadeCommunicator = Result<std::unique_ptr<Communicator>>;

UniqueId FromNccl(const ncclUniqueId& id) {
  return std::bit_cast<UniqueId>(id);
}

Status StoreId(const Result<UniqueId>& id, ncclUniqueId* to) {
  if (!id.ok()) return id.status();
  *to = std::bit_cast<ncclUniqueId>(*id);
  return Status::Ok();
}

void DropReference(ncclComm_t comm) {
  if (comm->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete comm;
}

/// Keeps the object behind a handle while this thread ends it, because another one may do so, too.
class Reference {
 public:
  explicit Reference(ncclComm_t comm) : comm_(comm) {
    comm->references.fetch_add(1, std::memory_order_relaxed);
  }
  ~Reference() { DropReference(comm_); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

 private:
  const ncclComm_t comm_;
};

/// Ends a handle, by "Destroy" or "Abort"; nullptr: by failing to form. Only the first call for a
/// handle has an effect. Requires: the caller has a reference.
void End(ncclComm_t comm, const char* way) {
  if (comm->state.exchange(0, std::memory_order_acq_rel) != ncclComm::kAlive) return;
  if (way != nullptr) LogEnd(comm, way);
  DropReference(comm);
}

/// Stores the handle of a communicator that has begun to form, and waits for it as the group and
/// its options demand. If it fails, tells the daemon that this rank is out, and sets `*out` to
/// NULL. `rank` and `ranks`: its future numbers, as far as they are known. `states`: whether the
/// requirements of this process are said of its job, which may be new.
Status Form(Birth birth, MadeCommunicator made, int rank, int ranks, ncclComm_t* out,
            bool states = false) {
  *out = nullptr;
  if (!made.ok()) return made.status();
  if (*made == nullptr) return Status::Ok();
  auto handle = std::make_unique<ncclComm>();
  handle->communicator = std::move(*made);
  handle->birth = std::move(birth);
  Communicator* const communicator = handle->communicator.get();
  // Release: a thread that finds the handle alive finds all of it.
  handle->state.store(ncclComm::kAlive, std::memory_order_release);
  const std::shared_ptr<ncclComm> comm(handle.release(), &DropReference);
  comm->references.fetch_add(1, std::memory_order_relaxed);  // the handle's own
  *out = comm.get();
  LogInitStart(comm.get(), rank, ranks);
  return Group::OfThisThread().AddForming(communicator, [comm, out, states](const Status& formed) {
    if (formed.ok() && states) {
      comm->stated_requirements = StateRequirementsOfProcess(*comm->communicator);
    }
    if (formed.ok()) return LogInitComplete(comm.get());
    static_cast<void>(comm->communicator->Abort());
    *out = nullptr;
    End(comm.get(), nullptr);
  });
}

/// Runs `function` of stock NCCL on its part of `comm`, if it has one. `arguments` follow the
/// handle.
template <typename Function, typename... Arguments>
ncclResult_t OnStockPart(const StockFunction<Function>& function, ncclComm_t comm,
                         Arguments... arguments) {
  StockCommunicator* const carrier = comm->carrier.load(std::memory_order_acquire);
  return carrier != nullptr ? function(carrier->handle(), arguments...) : ncclSuccess;
}

/// Returns the result of a call that has run on both parts.
ncclResult_t Both(ncclResult_t stock, ncclResult_t ours) {
  return ours == ncclSuccess ? stock : ours;
}

void RetireStockPart(ncclComm_t comm) {
  if (StockCommunicator* const carrier = comm->carrier.load()) carrier->Retire();
}

void CloseStockPart(ncclComm_t comm) {
  if (StockCommunicator* const carrier = comm->carrier.load()) carrier->CloseStream();
}

Status CheckPlace(int ranks, int rank) {
  if (ranks < 1) return InvalidArgument("nranks is {}, less than 1", ranks);
  if (rank < 0 || rank >= ranks) return InvalidArgument("rank is {}, not in [0, {})", rank, ranks);
  return Status::Ok();
}

Status Join(const char* function, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
            const ncclConfig_t* config) {
  HZ_RETURN_IF_ERROR(CheckPointer(comm, "comm"));
  HZ_RETURN_IF_ERROR(CheckPlace(ranks, rank));
  HZ_RETURN_IF_ERROR(RequirementsOfProcess().status());
  HZ_ASSIGN_OR_RETURN(CommunicatorOptions options, ParseConfig(config, DefaultOptions()));
  SetLogRank(rank);
  ShowVersionOnce(rank, options.device);
  options.on_gpu = ServesBoth() && StockCouldCarry();
  const UniqueId unique_id = FromNccl(id);
  const Status formed =
      Form(BirthById(function, unique_id), Communicator::Join(unique_id, ranks, rank, options),
           rank, ranks, comm, true);
  const bool failed = !formed.ok() && formed.code() != Code::kInProgress;
  return failed || !options.on_gpu ? formed : Adopt(comm, config);
}

Status CheckDevices(int count, const int* devices) {
  if (count < 1) return InvalidArgument("ndev is {}, less than 1", count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (devices[i] < 0) return InvalidArgument("devlist[{}] is {}", i, devices[i]);
    for (int j = 0; j < i; ++j) {
      if (devices[i] == devices[j]) {
        return InvalidUsage("devlist has device {} at {} and at {}", devices[i], j, i);
      }
    }
  }
  return Status::Ok();
}

/// Joins all ranks of one communicator in this thread.
Status JoinAll(ncclComm_t* comms, int count, const int* devices) {
  HZ_RETURN_IF_ERROR(CheckPointer(comms, "comm"));
  HZ_RETURN_IF_ERROR(CheckDevices(count, devices));
  HZ_RETURN_IF_ERROR(RequirementsOfProcess().status());
  HZ_ASSIGN_OR_RETURN(const UniqueId id, Communicator::CreateUniqueId());
  ShowVersionOnce(0, devices != nullptr ? devices[0] : 0);
  Group& group = Group::OfThisThread();
  group.Start();
  Status status;
  for (int rank = 0; rank < count && status.ok(); ++rank) {
    CommunicatorOptions options = DefaultOptions();
    options.device = devices != nullptr ? devices[rank] : rank;
    status = Form(BirthById("ncclCommInitAll", id), Communicator::Join(id, count, rank, options),
                  rank, count, &comms[rank], rank == 0);
  }
  group.NoteFailure(status);
  const Status ended = group.End();
  if (!status.ok()) return status;
  // Inside a group of the caller nothing has formed yet, and the daemon carries all.
  const bool formed = ended.ok() && !group.open();
  return formed && ServesBoth() ? AdoptAll(comms, count, devices) : ended;
}

/// Returns ok once the number of ranks is known; otherwise the reason why it is not.
Status CheckFormed(Communicator& communicator) {
  if (communicator.rank() >= 0) return Status::Ok();
  const Status state = communicator.AsyncState();
  if (communicator.rank() >= 0) return Status::Ok();
  return state.code() == Code::kInProgress ? communicator.CheckUsable() : state;
}

Status Split(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  Communicator& parent = *comm->communicator;
  HZ_RETURN_IF_ERROR(CheckPointer(out, "newcomm"));
  HZ_RETURN_IF_ERROR(CheckNotSuspended(comm));
  HZ_RETURN_IF_ERROR(CheckFormed(parent));
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return InvalidArgument("color is {}: neither 0 or more nor NCCL_SPLIT_NOCOLOR", color);
  }
  HZ_ASSIGN_OR_RETURN(const CommunicatorOptions options, ParseConfig(config, parent.options()));
  const Status formed = Form(BirthFrom("ncclCommSplit", comm, color, key),
                             parent.Split(color >= 0, color, key, options), -1, -1, out);
  return formed.ok() ? AdoptSplit(comm, color, key, out, config) : formed;
}

Status CheckExcluded(const Communicator& parent, std::span<const int> excluded) {
  for (size_t i = 0; i < excluded.size(); ++i) {
    const int rank = excluded[i];
    if (rank < 0 || rank >= parent.ranks()) {
      return InvalidArgument("excludeRanksList[{}] is {}, not in [0, {})", i, rank, parent.ranks());
    }
    if (rank == parent.rank()) {
      return InvalidArgument("excludeRanksList[{}] is the calling rank {}", i, rank);
    }
    for (size_t j = 0; j < i; ++j) {
      if (excluded[j] == rank) {
        return InvalidArgument("excludeRanksList has rank {} at {} and at {}", rank, j, i);
      }
    }
  }
  return Status::Ok();
}

/// Returns the number that a remaining rank has in a shrunk communicator.
int RankWithout(std::span<const int> excluded, int rank) {
  return rank - static_cast<int>(std::count_if(excluded.begin(), excluded.end(),
                                               [rank](int other) { return other < rank; }));
}

Status Shrink(ncclComm_t comm, std::span<int> excluded, ncclComm_t* out, ncclConfig_t* config,
              int flags) {
  Communicator& parent = *comm->communicator;
  HZ_RETURN_IF_ERROR(CheckPointer(out, "newcomm"));
  HZ_RETURN_IF_ERROR(CheckNotSuspended(comm));
  HZ_RETURN_IF_ERROR(CheckFormed(parent));
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return InvalidArgument("shrinkFlags is {:#x}", flags);
  }
  HZ_RETURN_IF_ERROR(CheckExcluded(parent, excluded));
  HZ_ASSIGN_OR_RETURN(const CommunicatorOptions options, ParseConfig(config, parent.options()));
  const int rank = RankWithout(excluded, parent.rank());
  const int ranks = parent.ranks() - static_cast<int>(excluded.size());
  const Status formed =
      Form(BirthFrom("ncclCommShrink", comm, 0, rank),
           parent.Shrink(excluded, flags == NCCL_SHRINK_ABORT, options), rank, ranks, out);
  if (!formed.ok()) return formed;
  return AdoptShrink(comm, excluded.data(), static_cast<int>(excluded.size()), out, config, flags);
}

/// Stock NCCL's part would have to grow as well, by ranks that have no communicator of ours yet.
Status CheckGrowable(ncclComm_t comm) {
  if (comm->carrier.load() == nullptr) return Status::Ok();
  return NotServed("the growth of a communicator that stock NCCL carries",
                   "make a new communicator with the new ranks");
}

/// Grows a communicator by a rank that the parent has already.
Status GrowFrom(ncclComm_t comm, int ranks, int rank, ncclComm_t* out, const ncclConfig_t* config) {
  Communicator& parent = *comm->communicator;
  HZ_RETURN_IF_ERROR(CheckGrowable(comm));
  HZ_RETURN_IF_ERROR(CheckPointer(out, "newcomm"));
  HZ_RETURN_IF_ERROR(CheckNotSuspended(comm));
  HZ_RETURN_IF_ERROR(CheckFormed(parent));
  if (rank != -1 && rank != parent.rank()) {
    return InvalidArgument("rank is {}: a rank of comm keeps its own, and passes -1", rank);
  }
  if (ranks <= parent.ranks()) {
    return InvalidArgument("nRanks is {}, not more than the {} of comm", ranks, parent.ranks());
  }
  HZ_ASSIGN_OR_RETURN(const CommunicatorOptions options, ParseConfig(config, parent.options()));
  return Form(BirthFrom("ncclCommGrow", comm, 0, parent.rank()), parent.GrowFrom(ranks, options),
              parent.rank(), ranks, out);
}

/// Grows a communicator by a rank that joins.
Status JoinGrowth(int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                  const ncclConfig_t* config) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "newcomm"));
  HZ_RETURN_IF_ERROR(CheckPointer(id, "uniqueId"));
  HZ_RETURN_IF_ERROR(CheckPlace(ranks, rank));
  HZ_ASSIGN_OR_RETURN(const CommunicatorOptions options, ParseConfig(config, DefaultOptions()));
  SetLogRank(rank);
  ShowVersionOnce(rank, options.device);
  const UniqueId unique_id = FromNccl(*id);
  return Form(BirthById("ncclCommGrow", unique_id),
              Communicator::JoinGrowth(unique_id, ranks, rank, options), rank, ranks, out);
}

/// Runs a query of `comm` that stores one number.
template <typename Number>
ncclResult_t Query(const char* function, const ncclComm_t comm, int* out, const char* name,
                   Number&& number) {
  return CallOn(function, comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckPointer(out, name));
    HZ_RETURN_IF_ERROR(CheckFormed(communicator));
    *out = number(communicator);
    return Status::Ok();
  });
}

}  // namespace

void GiveUp(ncclComm_t* out) {
  const ncclComm_t comm = std::exchange(*out, nullptr);
  if (comm == nullptr) return;
  const Reference kept(comm);
  RetireStockPart(comm);
  static_cast<void>(comm->communicator->Abort());
  End(comm, nullptr);
}

}  // namespace harmonaize::shim

using harmonaize::Communicator;
using harmonaize::InternalError;
using harmonaize::InvalidArgument;
using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId) {
  HZ_FORWARD(ncclGetUniqueId, uniqueId);
  return Call("ncclGetUniqueId", nullptr, [&] {
    HZ_RETURN_IF_ERROR(CheckPointer(uniqueId, "uniqueId"));
    return StoreId(Communicator::CreateUniqueId(), uniqueId);
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId) {
  HZ_FORWARD(ncclCommGetUniqueId, comm, uniqueId);
  return CallOn("ncclCommGetUniqueId", comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckPointer(uniqueId, "uniqueId"));
    HZ_RETURN_IF_ERROR(CheckGrowable(comm));
    return StoreId(communicator.CreateGrowId(), uniqueId);
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
            int rank) {
  HZ_FORWARD(ncclCommInitRank, comm, nranks, commId, rank);
  return Call("ncclCommInitRank", nullptr,
              [&] { return Join("ncclCommInitRank", comm, nranks, commId, rank, nullptr); });
}

HZ_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId,
            int rank, ncclConfig_t* config) {
  HZ_FORWARD(ncclCommInitRankConfig, comm, nranks, commId, rank, config);
  return Call("ncclCommInitRankConfig", nullptr,
              [&] { return Join("ncclCommInitRankConfig", comm, nranks, commId, rank, config); });
}

HZ_NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
            int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  HZ_FORWARD(ncclCommInitRankScalable, newcomm, nranks, myrank, nId, commIds, config);
  return Call("ncclCommInitRankScalable", nullptr, [&] {
    HZ_RETURN_IF_ERROR(CheckPointer(commIds, "commIds"));
    if (nId < 1 || nId > nranks) {
      return InvalidArgument("nId is {}, not in [1, {}]", nId, nranks);
    }
    return Join("ncclCommInitRankScalable", newcomm, nranks, commIds[0], myrank, config);
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  HZ_FORWARD(ncclCommInitAll, comm, ndev, devlist);
  return Call("ncclCommInitAll", nullptr, [&] { return JoinAll(comm, ndev, devlist); });
}

HZ_NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
            ncclConfig_t* config) {
  HZ_FORWARD(ncclCommSplit, comm, color, key, newcomm, config);
  return CallOn("ncclCommSplit", comm,
                [&](Communicator&) { return Split(comm, color, key, newcomm, config); });
}

HZ_NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList,
            int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  HZ_FORWARD(ncclCommShrink, comm, excludeRanksList, excludeRanksCount, newcomm, config,
             shrinkFlags);
  return CallOn("ncclCommShrink", comm, [&](Communicator&) {
    HZ_RETURN_IF_ERROR(CheckPointer(excludeRanksList, "excludeRanksList"));
    if (excludeRanksCount < 1) {
      return InvalidArgument("excludeRanksCount is {}, less than 1", excludeRanksCount);
    }
    const std::span<int> excluded(excludeRanksList, static_cast<size_t>(excludeRanksCount));
    return Shrink(comm, excluded, newcomm, config, shrinkFlags);
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId,
            int rank, ncclComm_t* newcomm, ncclConfig_t* config) {
  HZ_FORWARD(ncclCommGrow, comm, nRanks, uniqueId, rank, newcomm, config);
  if (comm == nullptr) {
    return Call("ncclCommGrow", nullptr,
                [&] { return JoinGrowth(nRanks, uniqueId, rank, newcomm, config); });
  }
  return CallOn("ncclCommGrow", comm,
                [&](Communicator&) { return GrowFrom(comm, nRanks, rank, newcomm, config); });
}

HZ_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  HZ_FORWARD(ncclCommRevoke, comm, revokeFlags);
  if (IsCarried(comm)) {
    static const StockFunction<decltype(pncclCommRevoke)> revoke("ncclCommRevoke");
    const ncclResult_t stock =
        ConcludeStock("ncclCommRevoke", comm, OnStockPart(revoke, comm, revokeFlags));
    if (stock != ncclSuccess) return stock;
  }
  return CallOn("ncclCommRevoke", comm, [&](Communicator& communicator) {
    if (revokeFlags != NCCL_REVOKE_DEFAULT) {
      return InvalidArgument("revokeFlags is {:#x}, not NCCL_REVOKE_DEFAULT", revokeFlags);
    }
    return communicator.Revoke();
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  HZ_FORWARD(ncclCommFinalize, comm);
  if (comm == nullptr) return ncclSuccess;
  // The witness has nothing to flush: nobody waits for what it shows.
  if (IsCarried(comm)) RetireStockPart(comm);
  HZ_CARRY(ncclCommFinalize, comm, carried);
  return CallOn("ncclCommFinalize", comm,
                [](Communicator& communicator) { return communicator.Finalize(); });
}

HZ_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  HZ_FORWARD(ncclCommDestroy, comm);
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t stock = ncclSuccess;
  const ncclResult_t ours = Call("ncclCommDestroy", nullptr, [&] {
    HZ_RETURN_IF_ERROR(CheckHandle(comm));
    const Reference kept(comm);
    ShowRankOf(*comm->communicator);
    RetireStockPart(comm);
    if (IsCarried(comm)) {
      static const StockFunction<decltype(pncclCommDestroy)> destroy("ncclCommDestroy");
      stock = ConcludeStock("ncclCommDestroy", comm, OnStockPart(destroy, comm));
    }
    CloseStockPart(comm);
    const Status status = comm->communicator->Leave();
    End(comm, "Destroy");
    return status;
  });
  return Both(stock, ours);
}

HZ_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  HZ_FORWARD(ncclCommAbort, comm);
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t stock = ncclSuccess;
  const ncclResult_t ours = Call("ncclCommAbort", nullptr, [&] {
    HZ_RETURN_IF_ERROR(CheckHandle(comm));
    const Reference kept(comm);
    ShowRankOf(*comm->communicator);
    RetireStockPart(comm);
    if (IsCarried(comm)) {
      static const StockFunction<decltype(pncclCommAbort)> abort("ncclCommAbort");
      stock = ConcludeStock("ncclCommAbort", comm, OnStockPart(abort, comm));
    }
    const Status status = comm->communicator->Abort();
    CloseStockPart(comm);
    End(comm, "Abort");
    return status;
  });
  return Both(stock, ours);
}

HZ_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  HZ_FORWARD(ncclCommGetAsyncError, comm, asyncError);
  return CallOn("ncclCommGetAsyncError", comm, [&](Communicator& communicator) {
    HZ_RETURN_IF_ERROR(CheckPointer(asyncError, "asyncError"));
    StockCommunicator* const carrier = comm->carrier.load(std::memory_order_acquire);
    if (carrier != nullptr) {
      static const StockFunction<decltype(pncclCommGetAsyncError)> state_of(
          "ncclCommGetAsyncError");
      const ncclResult_t asked = state_of(carrier->handle(), asyncError);
      if (asked != ncclSuccess) return InternalError("stock NCCL has no state: {}", Number(asked));
      if (*asyncError == ncclInProgress) return Status::Ok();
      if (*asyncError != ncclSuccess) {
        communicator.SetLastError(fmt::format("stock NCCL: {}", ncclGetErrorString(*asyncError)));
        return Status::Ok();
      }
    }
    const Status state = carrier != nullptr ? carrier->Failure() : communicator.AsyncState();
    *asyncError = ToResult(state);
    if (state.ok()) LogInitComplete(comm);
    const bool failed = *asyncError != ncclSuccess && *asyncError != ncclInProgress;
    if (failed) communicator.SetLastError(state.message());
    return Status::Ok();
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  HZ_FORWARD(ncclCommCount, comm, count);
  return Query("ncclCommCount", comm, count, "count",
               [](const Communicator& communicator) { return communicator.ranks(); });
}

HZ_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  HZ_FORWARD(ncclCommCuDevice, comm, device);
  HZ_CARRY(ncclCommCuDevice, comm, carried, device);
  return Query("ncclCommCuDevice", comm, device, "device",
               [](const Communicator& communicator) { return communicator.options().device; });
}

HZ_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  HZ_FORWARD(ncclCommUserRank, comm, rank);
  return Query("ncclCommUserRank", comm, rank, "rank",
               [](const Communicator& communicator) { return communicator.rank(); });
}
