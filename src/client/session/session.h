#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/own_descriptor.h"
#include "src/base/status.h"
#include "src/client/session/daemon_pulse.h"
#include "src/client/session/operation_room.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// This process's connection to the host's daemon: a control socket for rare requests, and shared
/// memory for operations. Thread safe. No thread of its own: whoever waits looks after the wait.
///
/// Once the daemon is gone every call gives kRemoteError; the next Session::Get tries to connect
/// anew, while communicators of the old session stay broken.
class Session {
 public:
  /// The process's session, connected at the first call (or the first after fork or after a lost
  /// daemon). kUnavailable where no daemon listens that is to be believed, naming the sockets
  /// tried.
  static Result<std::shared_ptr<Session>> Get();
  /// The session if there is one already, else nullptr.
  static std::shared_ptr<Session> Current();

  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sends `request` and waits for its answer. `descriptors` travel along; those that come back go
  /// to `received`.
  template <typename Reply, typename Request>
  Result<Reply> Call(const Request& request, std::span<const std::byte> tail = {},
                     std::span<const int> descriptors = {},
                     std::vector<FileDescriptor>* received = nullptr) {
    HZ_ASSIGN_OR_RETURN(ControlMessage message,
                        Exchange(Encode(Request::kType, request, tail), descriptors));
    if (received != nullptr) *received = std::move(message.descriptors);
    return DecodeReply<Reply>(message.bytes);
  }

  /// Room for operations at the daemon, which is to be taken before they are submitted.
  OperationRoom& room() { return room_; }

  /// What a group posts to one queue.
  struct QueueShare {
    uint32_t stream = 0;
    uint64_t operations = 0;
    uint64_t lanes = 0;  ///< How many of them have to be under way at the same time: Turns.
  };
  /// Takes room for all of a group without waiting, or for none of it.
  bool TakeRoomInWindows(std::span<const QueueShare> queues);

  /// Hands descriptors for which room has been taken to the daemon in this order, all of them or
  /// (when the daemon is gone) none. Blocks while the ring is full.
  Status Submit(std::span<const OperationDescriptor> descriptors);
  /// The same for descriptors that are in the order of their turns, and for which there is no room
  /// yet: waits for it, more than once if need be. `queues` are all that they go to.
  Status SubmitInTurns(std::span<const OperationDescriptor> descriptors,
                       std::span<const QueueShare> queues);

  /// Waits until `stream` has completed `position`. `on_tick` is called now and then during a long
  /// wait (about ten times a second); a failure that it returns ends the wait.
  Status WaitForPosition(uint32_t stream, uint64_t position,
                         const std::function<Status()>& on_tick);
  Status WaitForPosition(StreamSlot* slot, uint64_t position,
                         const std::function<Status()>& on_tick);
  /// Waits until the member is no longer kForming; `on_tick` as above.
  Status WaitWhileForming(uint32_t member, const std::function<Status()>& on_tick);

  /// Waits until MemberSlot::departures of the member is no longer `departures`.
  Status WaitForDeparture(uint32_t member, uint32_t departures);

  /// Tells the daemon, should it sleep, that the tenant has left word in the segment. The word is
  /// written before, sequentially consistent.
  void Nudge();

  MemberSlot& member_slot(uint32_t member) { return segment_->members[member]; }
  StreamSlot& stream_slot(uint32_t stream) { return segment_->streams[stream]; }

  /// kRemoteError, with the daemon's last word if it left one, once the daemon is gone. Looks at
  /// the socket: a system call.
  Status CheckAlive();
  /// The same from memory, without looking.
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// Tells this session from every other of the process, past ones included.
  uint64_t number() const { return number_; }
  /// Whether this process is a forked child of the one that connected.
  bool inherited() const { return fork_generation_ != forks_.load(std::memory_order_relaxed); }

 private:
  Session() = default;
  static Result<std::shared_ptr<Session>> Connect();
  static void ForgetAfterFork();
  Status Open(ControlSocket socket, const std::string& path);
  Result<ControlMessage> Exchange(const std::vector<std::byte>& request,
                                  std::span<const int> descriptors);
  Result<ControlMessage> AwaitAnswer(MessageType type);
  Status CheckPulse(const char* awaited);
  Status Silent(const char* awaited, uint64_t for_ns);
  Status Lost(const Status& why);
  /// Whether this process still has the descriptors. Programs close what they did not open, and the
  /// daemon takes a process that closes its socket for ended.
  bool HasDescriptors() const;
  /// ok while it has; afterwards the session is lost.
  Status CheckDescriptors();
  Status Write(std::span<const OperationDescriptor> descriptors);
  Status AwaitRoom(uint32_t tail);
  uint64_t Window(const QueueShare& queue) const;
  uint64_t UnderWay(uint32_t stream) const;
  size_t TakeRoomForSome(std::span<const OperationDescriptor> descriptors,
                         std::span<const QueueShare> queues);
  void RingDoorbell();

  template <typename Reply>
  static Result<Reply> DecodeReply(std::span<const std::byte> bytes) {
    HZ_ASSIGN_OR_RETURN(MessageHeader header, DecodeHeader(bytes));
    HZ_RETURN_IF_ERROR(DecodeFailure(header, bytes));
    return DecodeBody<Reply>(header, bytes);
  }

  // How often this process, or one it stems from, was forked since it connected first.
  static inline std::atomic<uint64_t> forks_{0};

  std::string path_;
  std::mutex control_mutex_;  // one request at a time
  ControlSocket socket_;
  FileIdentity socket_identity_;
  std::mutex submit_mutex_;  // one producer at a time; guards posted_
  OperationRoom room_;
  std::vector<uint64_t> posted_;  // operations so far, by stream
  Mapping mapping_;
  SessionSegment* segment_ = nullptr;
  OwnDescriptor doorbell_;
  HelloReply hello_;
  uint64_t number_ = 0;
  uint64_t fork_generation_ = 0;
  std::atomic<bool> lost_{false};
  std::atomic<bool> silent_{false};  // it is lost because it did not answer
  DaemonPulse pulse_;
  std::atomic<bool> closed_here_{false};  ///< The program has closed the descriptors.
};

}  // namespace harmonaize
