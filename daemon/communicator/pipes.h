#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "daemon/communicator/pipe_id.h"
#include "daemon/tenant/posted_operation.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Matches the messages that ranks of this host send each other in pipes. Thread: engine.
class Pipes {
 public:
  /// A send and its receive.
  struct Match {
    PostedOperation* send;
    PostedOperation* receive;
  };

  /// Adds a message whose peer is on this host. Returns its match once both halves are here.
  /// Errors: kInvalidUsage for a message that was posted before, for one too many, and for one in a
  /// pipe that was closed; kRemoteError if the peer has closed it. The message is not added then.
  Result<std::optional<Match>> Add(PostedOperation* message);

  /// Closes an end of a pipe. Returns the messages that wait in it.
  std::vector<PostedOperation*> Close(const PipeId& id);
  /// Returns the messages that wait for this rank, or are its own, and removes them.
  std::vector<PostedOperation*> TakeWith(int rank);
  std::vector<PostedOperation*> TakeAll();

  /// Number of pipes that take memory.
  size_t size() const { return pipes_.size(); }
  /// Memory of the daemon that a pipe takes, in bytes.
  static constexpr int64_t kPipeBytes = 192;

 private:
  /// One end of a pipe: the messages of its rank that wait for the other half.
  struct End {
    std::map<uint64_t, PostedOperation*> sends;  // by name
    std::map<uint64_t, PostedOperation*> receives;
    bool closed = false;  // by this end's rank

    bool empty() const { return sends.empty() && receives.empty(); }
  };

  static void TakeFrom(End* end, std::vector<PostedOperation*>* taken);

  std::map<PipeId, End>
      pipes_;  // the ends that have messages, or are closed while the other is not
};

}  // namespace harmonaize::daemon
