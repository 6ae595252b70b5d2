// Memory that the daemon maps too, and the registration of other memory.

#include "src/client/memory/memory.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "include/nccl.h"
#include "shim/cuda_context.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "shim/stock_communicator.h"
#include "shim/stock_library.h"
#include "src/base/log.h"
#include "src/base/status.h"
#include "src/client/operation/communicator.h"

namespace harmonaize::shim {
namespace {

/// Tells the daemon of a buffer, if it is from ncclMemAlloc, so that the first operation need not
/// wait until the daemon has mapped it. Should that fail, the operation will say so.
void MakeKnown(Session& session, const void* buffer, size_t bytes) {
  static_cast<void>(RegionTable::Get().Locate(session, buffer, bytes));
}

Status Allocate(void** out, size_t bytes) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "ptr"));
  *out = nullptr;
  if (bytes == 0) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(*out, RegionTable::Get().Allocate(bytes));
  Log(LogLevel::kInfo, kLogAllocation, "ncclMemAlloc: {} bytes at {}", bytes, fmt::ptr(*out));
  if (const std::shared_ptr<Session> session = Session::Current()) MakeKnown(*session, *out, bytes);
  return Status::Ok();
}

/// Registers a buffer. The daemon learns of memory from ncclMemAlloc here at the latest, and cannot
/// map other memory later, so apart from that a registration only has to be remembered.
Result<Registration*> Register(ncclComm_t comm, const void* buffer, size_t bytes) {
  HZ_RETURN_IF_ERROR(CheckPointer(buffer, "buff"));
  if (bytes == 0) return InvalidArgument("size is 0");
  MakeKnown(comm->communicator->session(), buffer, bytes);
  auto registration = std::make_unique<Registration>(Registration{buffer, bytes});
  Registration* const handle = registration.get();
  const std::lock_guard lock(comm->registrations_mutex);
  comm->registrations.push_back(std::move(registration));
  return handle;
}

Status Deregister(ncclComm_t comm, const void* handle, const char* name) {
  const std::lock_guard lock(comm->registrations_mutex);
  const size_t erased = std::erase_if(
      comm->registrations, [&](const auto& registration) { return registration.get() == handle; });
  if (erased == 1) return Status::Ok();
  return InvalidArgument("{} {} is not of this communicator", name, fmt::ptr(handle));
}

/// Returns the address of a window that was registered on `comm`.
Result<void*> AddressOf(ncclComm_t comm, ncclWindow_t window) {
  const void* const handle = window;
  const std::lock_guard lock(comm->registrations_mutex);
  for (const auto& registration : comm->registrations) {
    if (registration.get() == handle) return const_cast<void*>(registration->address);
  }
  return InvalidArgument("win {} is not of this communicator", fmt::ptr(handle));
}

Status ReadMemoryStatistic(ncclComm_t comm, int statistic, uint64_t* value) {
  HZ_RETURN_IF_ERROR(CheckPointer(value, "value"));
  const Communicator& communicator = *comm->communicator;
  if (communicator.rank() < 0) return InvalidUsage("the communicator is not ready");
  switch (statistic) {
    case ncclStatGpuMemSuspend: *value = 0; return Status::Ok();
    case ncclStatGpuMemSuspended:
      *value = comm->suspended.load(std::memory_order_relaxed) ? 1 : 0;
      return Status::Ok();
    case ncclStatGpuMemPersist:
    case ncclStatGpuMemTotal: *value = communicator.mapped_bytes(); return Status::Ok();
    default:
      return InvalidArgument("stat is {}, not in [{}, {}]", statistic,
                             static_cast<int>(ncclStatGpuMemSuspend),
                             static_cast<int>(ncclStatGpuMemTotal));
  }
}

Status RegisterWindow(ncclComm_t comm, const void* buffer, size_t bytes, ncclWindow_t* window,
                      int flags) {
  HZ_RETURN_IF_ERROR(CheckPointer(window, "win"));
  constexpr int kKnownFlags =
      NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;
  if ((flags & ~kKnownFlags) != 0) return InvalidArgument("winFlags is {:#x}", flags);
  if ((flags & NCCL_WIN_COLL_SYMMETRIC) != 0 &&
      reinterpret_cast<uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
    return InvalidArgument("buff {} is not aligned to {} bytes", fmt::ptr(buffer),
                           NCCL_WIN_REQUIRED_ALIGNMENT);
  }
  HZ_ASSIGN_OR_RETURN(Registration* const registration, Register(comm, buffer, bytes));
  *window = reinterpret_cast<ncclWindow_t>(registration);
  return Status::Ok();
}

/// Whether stock NCCL has been asked for memory: what is not ours may then be its own.
std::atomic<bool> has_stock_memory{false};

}  // namespace
}  // namespace harmonaize::shim

using harmonaize::Communicator;
using harmonaize::InvalidArgument;
using harmonaize::RegionTable;
using harmonaize::Result;
using harmonaize::Status;
using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  HZ_FORWARD(ncclMemAlloc, ptr, size);
  if (ServesBoth() && StockCouldCarry()) {
    // Relaxed: whoever frees the memory has got its address from this call.
    has_stock_memory.store(true, std::memory_order_relaxed);
    static const StockFunction<decltype(pncclMemAlloc)> stock("ncclMemAlloc");
    return ConcludeStock("ncclMemAlloc", nullptr, stock(ptr, size));
  }
  return Call("ncclMemAlloc", nullptr, [&] { return Allocate(ptr, size); });
}

HZ_NCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  HZ_FORWARD(ncclMemFree, ptr);
  if (ptr == nullptr) return ncclSuccess;
  if (has_stock_memory.load(std::memory_order_relaxed) && !RegionTable::Get().Contains(ptr, 1)) {
    static const StockFunction<decltype(pncclMemFree)> stock("ncclMemFree");
    return ConcludeStock("ncclMemFree", nullptr, stock(ptr));
  }
  return Call("ncclMemFree", nullptr, [&] { return RegionTable::Get().Free(ptr); });
}

HZ_NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size,
            void** handle) {
  HZ_FORWARD(ncclCommRegister, comm, buff, size, handle);
  HZ_CARRY(ncclCommRegister, comm, carried, buff, size, handle);
  return CallOn("ncclCommRegister", comm, [&](Communicator&) {
    HZ_RETURN_IF_ERROR(CheckPointer(handle, "handle"));
    HZ_ASSIGN_OR_RETURN(*handle, Register(comm, buff, size));
    return Status::Ok();
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  HZ_FORWARD(ncclCommDeregister, comm, handle);
  HZ_CARRY(ncclCommDeregister, comm, carried, handle);
  return CallOn("ncclCommDeregister", comm, [&](Communicator&) {
    return handle == nullptr ? Status::Ok() : Deregister(comm, handle, "handle");
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size,
            ncclWindow_t* win, int winFlags) {
  HZ_FORWARD(ncclCommWindowRegister, comm, buff, size, win, winFlags);
  HZ_CARRY(ncclCommWindowRegister, comm, carried, buff, size, win, winFlags);
  return CallOn("ncclCommWindowRegister", comm,
                [&](Communicator&) { return RegisterWindow(comm, buff, size, win, winFlags); });
}

HZ_NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  HZ_FORWARD(ncclCommWindowDeregister, comm, win);
  HZ_CARRY(ncclCommWindowDeregister, comm, carried, win);
  return CallOn("ncclCommWindowDeregister", comm, [&](Communicator&) {
    return win == nullptr ? Status::Ok() : Deregister(comm, win, "win");
  });
}

HZ_NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  HZ_FORWARD(ncclWinGetUserPtr, comm, win, outUserPtr);
  HZ_CARRY(ncclWinGetUserPtr, comm, carried, win, outUserPtr);
  return CallOn("ncclWinGetUserPtr", comm, [&](Communicator&) {
    HZ_RETURN_IF_ERROR(CheckPointer(outUserPtr, "outUserPtr"));
    HZ_ASSIGN_OR_RETURN(*outUserPtr, AddressOf(comm, win));
    return Status::Ok();
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat,
            uint64_t* value) {
  HZ_FORWARD(ncclCommMemStats, comm, stat, value);
  HZ_CARRY(ncclCommMemStats, comm, carried, stat, value);
  return CallOn("ncclCommMemStats", comm,
                [&](Communicator&) { return ReadMemoryStatistic(comm, Number(stat), value); });
}

HZ_NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags) {
  HZ_FORWARD(ncclCommSuspend, comm, flags);
  HZ_CARRY(ncclCommSuspend, comm, carried, flags);
  return CallOn("ncclCommSuspend", comm, [&](Communicator& communicator) {
    if ((flags & ~NCCL_SUSPEND_MEM) != 0) return InvalidArgument("flags is {:#x}", flags);
    if (!comm->suspended.load()) HZ_RETURN_IF_ERROR(communicator.CheckUsable());
    comm->suspended.store(true);
    return Status::Ok();
  });
}

HZ_NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t comm) {
  HZ_FORWARD(ncclCommResume, comm);
  HZ_CARRY(ncclCommResume, comm, carried);
  return CallOn("ncclCommResume", comm, [&](Communicator&) {
    comm->suspended.store(false);
    return Status::Ok();
  });
}
