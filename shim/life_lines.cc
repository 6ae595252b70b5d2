#include "shim/life_lines.h"

#include <fmt/format.h>

#include "shim/debug_log.h"
#include "shim/face.h"
#include "src/base/log.h"

namespace harmonaize::shim {
namespace {

/// Returns "comm 0x... rank 0 nranks 2 cudaDev 0", a part of all these lines.
std::string Who(ncclComm_t comm, int rank, int ranks) {
  return fmt::format("comm {} rank {} nranks {} cudaDev {}", fmt::ptr(comm), rank, ranks,
                     comm->communicator->options().device);
}

void LogInit(ncclComm_t comm, int rank, int ranks, const char* stage) {
  if (!LogEnabled(LogLevel::kInfo, kLogInit)) return;
  const int device = comm->communicator->options().device;
  LogAsNccl(device, kLogInit, "{} {} nvmlDev {} busId 0 {} - Init {}", comm->birth.function,
            Who(comm, rank, ranks), device, comm->birth.source, stage);
}

}  // namespace

Birth BirthById(const char* function, const UniqueId& id) {
  return {function, fmt::format("commId {:#x}", DigestOfId(id))};
}

Birth BirthFrom(const char* function, ncclComm_t parent, int color, int key) {
  return {function, fmt::format("parent {} childCount {} color {} key {}", fmt::ptr(parent),
                                parent->children++, color, key)};
}

// A line that does not fit into memory is lost, here and below.
void LogInitStart(ncclComm_t comm, int rank, int ranks) noexcept try {
  LogInit(comm, rank, ranks, "START");
} catch (...) {
}

void LogInitComplete(ncclComm_t comm) noexcept try {
  if (comm->complete_logged.exchange(true, std::memory_order_relaxed)) return;
  const Communicator& communicator = *comm->communicator;
  LogInit(comm, communicator.rank(), communicator.ranks(), "COMPLETE");
  Log(LogLevel::kInfo, kLogInit, "{}: comm {} rank {} nranks {} device {} name '{}' is ready",
      comm->birth.function, fmt::ptr(comm), communicator.rank(), communicator.ranks(),
      communicator.options().device, communicator.options().name);
} catch (...) {
}

void LogEnd(ncclComm_t comm, const char* way) noexcept try {
  if (!LogEnabled(LogLevel::kInfo, kLogInit)) return;
  const Communicator& communicator = *comm->communicator;
  LogAsNccl(communicator.options().device, kLogInit, "{} busId 0 - {} COMPLETE",
            Who(comm, communicator.rank(), communicator.ranks()), way);
} catch (...) {
}

}  // namespace harmonaize::shim
