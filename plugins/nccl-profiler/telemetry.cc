#include "plugins/nccl-profiler/telemetry.h"

#include <sys/mman.h>

#include <cstring>
#include <span>
#include <utility>

#include "src/ipc/messages.h"

namespace harmonaize::nccl_abi {
namespace {

/// Most rings of a process, which has one more each time the daemon was lost. They take 1 MiB each
/// until the process ends.
constexpr size_t kMostRings = 16;

}  // namespace

Result<Telemetry::Way> Telemetry::Open(uint64_t communicator) {
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  if (session == session_ && !session->lost()) return way_;
  return OpenAnew(std::move(session), communicator);
}

Result<Telemetry::Way> Telemetry::OpenAnew(std::shared_ptr<Session> session,
                                           uint64_t communicator) {
  if (rings_.size() == kMostRings) return Unavailable("the daemon was lost {} times", kMostRings);
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      CreateSharedMemory("harmonaize-profile", sizeof(ProfileRing)));
  // A child writes into a ring of its own.
  madvise(memory.mapping.data(), memory.mapping.size(), MADV_DONTFORK);
  // The daemon takes no memory with missing pages.
  std::memset(memory.mapping.data(), 0, memory.mapping.size());
  const int descriptors[] = {memory.descriptor.get()};
  HZ_ASSIGN_OR_RETURN(
      const OpenProfileReply reply,
      session->Call<OpenProfileReply>(OpenProfileRequest{communicator}, {}, descriptors));
  session_ = std::move(session);
  way_ = {};
  if (reply.events == 0) return way_;
  memory.descriptor.Reset();
  way_ = {.ring = reinterpret_cast<ProfileRing*>(memory.mapping.data()), .events = reply.events};
  rings_.push_back(std::move(memory));
  return way_;
}

}  // namespace harmonaize::nccl_abi
