#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/pipe_message.h"
#include "src/ipc/unique_id.h"

namespace harmonaize {

/// One end of a way to another process, in whose pipes messages go (pipe_message.h): this process's
/// rank in a communicator of two ranks. It is kForming until the other process has taken the knock.
/// Thread: any, but for the destruction.
class PipePort {
 public:
  /// Returns the address of this process's door, which is opened first where needed, and what the
  /// host can send. Errors: those of the daemon.
  static Result<OpenDoorReply> OpenDoor(Session& session);
  /// Knocks at a door. `name` is for people. Errors: those of the daemon.
  static Result<std::unique_ptr<PipePort>> Knock(std::shared_ptr<Session> session,
                                                 const UniqueId& door, const std::string& name);
  /// Returns the number of knocks at this process's door so far.
  static uint32_t Knocks(const Session& session);
  /// Takes the first knock that nobody has taken; nullptr if there is none. Errors: those of the
  /// daemon.
  static Result<std::unique_ptr<PipePort>> TakeKnock(std::shared_ptr<Session> session);

  /// Leaves. What this rank has under way ends with an error, and so does what waits for it. When
  /// it returns the daemon touches no memory of these messages any more.
  ~PipePort();
  PipePort(const PipePort&) = delete;
  PipePort& operator=(const PipePort&) = delete;

  /// Returns ok once messages may be posted, kInProgress while the other process has not come, or
  /// why it has failed. Makes a system call while it forms.
  Status State();
  /// Returns why the communicator, or the daemon, is gone; ok if it is there as far as can be seen.
  /// Makes a system call.
  Status CheckHealth();
  /// Returns the text of the last failure of a message.
  std::string LastFailure() const;

  /// A message to be posted.
  struct Message {
    bool sends = false;
    uint32_t pipe = 0;
    uint64_t name = 0;        ///< No other message of the pipe and direction has it.
    uint64_t bytes = 0;       ///< To be sent, or the most that are received.
    BufferReference data;     ///< In use until the outcome tells the end.
    BufferReference outcome;  ///< A MessageOutcome, which is zero.
    bool awaited = true;      ///< False: it may be long in coming (kNotAwaited).
  };
  /// Hands a message to the daemon. Errors: kInProgress, and nothing was posted, where the daemon
  /// holds as much of this process as it may; kRemoteError once the daemon is gone.
  Status Post(const Message& message);

  /// Closes a pipe. Its messages end, some of them after this call. Errors: kRemoteError if the
  /// daemon is gone.
  Status ClosePipe(uint32_t pipe);

  Session& session() { return *session_; }
  const std::shared_ptr<Session>& session_pointer() const { return session_; }

 private:
  PipePort(std::shared_ptr<Session> session, uint32_t member)
      : session_(std::move(session)), member_(member) {}
  template <typename Request>
  static Result<std::unique_ptr<PipePort>> Make(std::shared_ptr<Session> session,
                                                const Request& request);
  MemberSlot& slot() const { return session_->member_slot(member_); }

  const std::shared_ptr<Session> session_;
  const uint32_t member_;
};

}  // namespace harmonaize
