#pragma once

#include <string>

#include "include/nccl.h"
#include "src/ipc/unique_id.h"

/// \file
/// The lines that NCCL writes to its log when a communicator begins and ends, in NCCL's wording:
/// tools and people look for "Init COMPLETE" and take ranks, devices and the communicator's id from
/// it. Bus ids are 0: the devices here are labels.

namespace harmonaize::shim {

/// The origin of a communicator, as its lines state it.
struct Birth {
  std::string function;
  std::string source;  ///< "commId 0x..." or "parent 0x... childCount ...".
};

/// Returns the origin of a communicator that `function` makes by a unique id.
Birth BirthById(const char* function, const UniqueId& id);
/// Returns the origin of one that it makes from `parent`, whose children it counts.
Birth BirthFrom(const char* function, ncclComm_t parent, int color, int key);

/// Logs that a communicator of so many ranks begins to form; -1 for a number not known yet.
void LogInitStart(ncclComm_t comm, int rank, int ranks) noexcept;
/// Logs that it is ready. The first call for a communicator writes NCCL's line, and one of our own
/// with its name.
void LogInitComplete(ncclComm_t comm) noexcept;
/// Logs that it has ended, by "Destroy" or "Abort". Requires: the handle still exists.
void LogEnd(ncclComm_t comm, const char* way) noexcept;

}  // namespace harmonaize::shim
