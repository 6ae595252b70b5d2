#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/profile_ring.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::nccl_abi {

/// The process's ring at the daemon.
class Telemetry {
 public:
  /// The events that the provider wants, and where to write them.
  struct Way {
    ProfileRing* ring = nullptr;
    uint32_t events = 0;  ///< 0: none.
  };

  /// Returns the way to the daemon, which the first call opens, and the first one after the daemon
  /// was lost. `communicator` as OpenProfileRequest has it. Rings stay mapped, because threads may
  /// still write there. Errors: those of Session::Get and Session::Call.
  Result<Way> Open(uint64_t communicator);

 private:
  Result<Way> OpenAnew(std::shared_ptr<Session> session, uint64_t communicator);

  std::shared_ptr<Session> session_;
  std::vector<SharedMemory> rings_;
  Way way_;
};

}  // namespace harmonaize::nccl_abi
