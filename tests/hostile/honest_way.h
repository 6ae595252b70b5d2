#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/memory/shared_memory.h"
#include "tests/support/hostile_session.h"

namespace harmonaize::testing {

/// The way between two ranks of the honest job, whose messages go in pipes as those of NCCL's net
/// plugin do. One rank opens a door, and the other knocks. Each has a session for it, in which it
/// also tells of profiler events.
class HonestWay {
 public:
  /// Opens a session, and its door. Errors: those of the daemon, here and below.
  Result<UniqueId> Open(const std::string& socket_path);
  /// Waits until another process has knocked, and takes the knock.
  Status AwaitGuest();
  /// Opens a session, knocks, and waits until the other process has taken it.
  Status Knock(const std::string& socket_path, const UniqueId& door);

  /// Sends or receives the messages of a round, in a pipe of its own, and checks what came. The
  /// receiver also checks that nobody else has knocked. Errors say what is wrong.
  Status Exchange(uint64_t round, bool sends);

 private:
  Status Begin(const std::string& socket_path);
  Status OpenProfile();
  Status AwaitReady();
  void Post(uint64_t round, uint64_t message, bool sends);
  Status Await(uint64_t message);
  Status Check(uint64_t round);

  std::optional<HostileSession> session_;
  uint32_t member_ = kNoMember;
  int32_t peer_ = 0;
  Mapping memory_;
  uint32_t region_ = kNoBuffer;
  Mapping profile_;
};

}  // namespace harmonaize::testing
