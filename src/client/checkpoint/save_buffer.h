#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/own_descriptor.h"
#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// Shared memory that a rank saves its part of a checkpoint in. The daemon keeps what lies in it
/// when the process has ended. Its pages are the process's own: its threads touch them first, so
/// the process's control group pays for them.
class SaveBuffer {
 public:
  /// Lends memory of MakeSaveMemory to the daemon, for the rank of a member. Errors: the daemon's,
  /// if a quota is used up.
  static Result<std::unique_ptr<SaveBuffer>> Lend(std::shared_ptr<Session> session, uint32_t member,
                                                  SharedMemory memory);
  SaveBuffer(const SaveBuffer&) = delete;
  SaveBuffer& operator=(const SaveBuffer&) = delete;

  /// Takes the buffer back from the daemon, which forgets what lies in it.
  Status TakeBack();

  std::byte* data() const { return memory_.data(); }
  uint64_t bytes() const { return memory_.size(); }
  /// The daemon's number of it.
  uint32_t number() const { return number_; }
  /// The descriptor of the memory; -1 if the program has closed it.
  int descriptor() const { return descriptor_.Intact() ? descriptor_.get() : -1; }

 private:
  SaveBuffer() = default;

  std::shared_ptr<Session> session_;
  Mapping memory_;
  OwnDescriptor descriptor_;
  uint32_t number_ = 0;
};

}  // namespace harmonaize
