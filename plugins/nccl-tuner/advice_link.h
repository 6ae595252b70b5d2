#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/tuning_reader.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::nccl_abi {

/// The daemon's advice for one communicator of this process. Thread: one at a time.
class AdviceLink {
 public:
  /// Asks the daemon. Returns nullptr where the provider has no advice for such a communicator.
  /// Errors: those of Session::Get and Session::Call.
  static Result<std::unique_ptr<AdviceLink>> Open(uint64_t communicator, size_t ranks,
                                                  size_t hosts);
  /// Tells the daemon that the communicator is done with.
  ~AdviceLink();
  AdviceLink(const AdviceLink&) = delete;
  AdviceLink& operator=(const AdviceLink&) = delete;

  /// Returns whether this process is a forked child of the one that opened it.
  bool inherited() const { return session_->inherited(); }

  /// Begins the next call, as TuningReader::Next. Returns nullptr in a forked child, which has no
  /// communicator.
  const TuningTable* Next(int function, uint64_t bytes);

 private:
  AdviceLink(std::shared_ptr<Session> session, uint32_t number, SharedMemory position,
             Mapping segment);

  const std::shared_ptr<Session> session_;
  const uint32_t number_;
  const SharedMemory position_;
  const Mapping segment_;
  TuningReader reader_;
};

}  // namespace harmonaize::nccl_abi
