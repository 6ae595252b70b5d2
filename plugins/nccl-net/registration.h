#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/status.h"
#include "src/client/session/session.h"

namespace harmonaize::nccl_net {

/// Memory that NCCL has registered for connections. Where the daemon maps it, nothing is copied in
/// this process. Other memory is copied through shared buffers, piece by piece. Thread: any.
class Registration {
 public:
  /// Registers host memory with the daemon of the session. Errors: kSystemError.
  static Result<std::unique_ptr<Registration>> Make(Session& session, void* data, size_t bytes);

  /// Returns how the daemon of this session finds a part of the memory; region kNoBuffer where it
  /// does not, and the data has to be copied. Errors: kInvalidArgument for what is not in it.
  Result<BufferReference> Find(Session& session, const void* data, uint64_t bytes) const;

 private:
  Registration(void* data, size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

  std::byte* const data_;
  const size_t bytes_;
  uint64_t session_ = 0;   // Session::number of the one that knows it
  BufferReference place_;  // of the first byte
};

}  // namespace harmonaize::nccl_net
