#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/looking.h"
#include "src/base/own_descriptor.h"
#include "src/base/status.h"
#include "src/client/session/daemon_pulse.h"
#include "src/client/session/operation_room.h"
#include "src/ipc/control_socket.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"
#include "src/ipc/session_versions.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// This process's connection to the host's daemon: a control socket for rare requests, and shared
/// memory for operations. It has no thread of its own: waiting threads check the daemon. Thread:
/// any.
///
/// Once the daemon is gone every call returns kRemoteError. The next Session::Get tries to connect
/// anew; communicators of the old session stay broken.
class Session {
 public:
  /// Returns the process's session, connected at the first call (or the first after a fork or after
  /// the daemon was lost). Errors: kUnavailable, with the sockets tried, where no trusted daemon
  /// listens.
  static Result<std::shared_ptr<Session>> Get();
  /// Returns the session if there is one already, else nullptr.
  static std::shared_ptr<Session> Current();

  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sends `request` and waits for its answer. `descriptors` travel along; those that come back are
  /// stored in `received`. Errors: kInvalidUsage for a request that the session's version of the
  /// protocol does not have.
  template <typename Reply, typename Request>
  Result<Reply> Call(const Request& request, std::span<const std::byte> tail = {},
                     std::span<const int> descriptors = {},
                     std::vector<FileDescriptor>* received = nullptr) {
    HZ_RETURN_IF_ERROR(CheckServed(Request::kType, version_));
    HZ_ASSIGN_OR_RETURN(ControlMessage message,
                        Exchange(Encode(Request::kType, request, tail, version_), descriptors));
    if (received != nullptr) *received = std::move(message.descriptors);
    return DecodeReply<Reply>(message.bytes);
  }

  /// Call for an answer whose tail is numbers, which are stored in `numbers`.
  template <typename Reply, typename Request>
  Result<Reply> CallForNumbers(const Request& request, std::vector<int32_t>* numbers) {
    HZ_RETURN_IF_ERROR(CheckServed(Request::kType, version_));
    HZ_ASSIGN_OR_RETURN(const ControlMessage message,
                        Exchange(Encode(Request::kType, request, {}, version_), {}));
    HZ_ASSIGN_OR_RETURN(const Reply reply, DecodeReply<Reply>(message.bytes));
    HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(message.bytes));
    HZ_ASSIGN_OR_RETURN(*numbers, DecodeNumbers(header, message.bytes));
    return reply;
  }

  /// Call for an answer that is a document, of which the daemon sends one piece after the other.
  /// Errors: also kRemoteError for a document that is too long, or does not come whole.
  template <typename Request>
  Result<std::string> CallForDocument(const Request& request) {
    HZ_RETURN_IF_ERROR(CheckServed(Request::kType, version_));
    // The daemon keeps one document for a session.
    const std::lock_guard lock(document_mutex_);
    HZ_ASSIGN_OR_RETURN(const ControlMessage first,
                        Exchange(Encode(Request::kType, request, {}, version_), {}));
    return ReadDocument(first);
  }

  /// Returns the room for operations at the daemon, which is to be taken before they are submitted.
  OperationRoom& room() { return room_; }

  /// A group's operations that go to one queue.
  struct QueueShare {
    uint32_t stream = 0;
    uint64_t operations = 0;
    uint64_t lanes = 0;  ///< Number of these that must be under way at the same time: Turns.
  };
  /// Takes room for a whole group without waiting. Returns false, and takes none, if there is too
  /// little.
  bool TakeRoomInWindows(std::span<const QueueShare> queues);

  /// Hands descriptors to the daemon in this order: all of them or (when the daemon is gone) none.
  /// Blocks while the ring is full. Requires: room has been taken for them.
  Status Submit(std::span<const OperationDescriptor> descriptors);
  /// Submits descriptors that are in the order of their turns, for which there is no room yet:
  /// waits for it, more than once if need be. `queues` are all queues that they go to.
  Status SubmitInTurns(std::span<const OperationDescriptor> descriptors,
                       std::span<const QueueShare> queues);

  /// Waits until `stream` has completed `position`. `on_tick` is called now and then during a long
  /// wait (about ten times a second); a failure that it returns ends the wait.
  Status WaitForPosition(uint32_t stream, uint64_t position,
                         const std::function<Status()>& on_tick);
  Status WaitForPosition(StreamSlot* slot, uint64_t position,
                         const std::function<Status()>& on_tick);
  /// Waits until `stream` has completed `position`, for at most `nanoseconds`. Returns whether it
  /// has.
  bool WaitBriefly(uint32_t stream, uint64_t position, uint64_t nanoseconds);

  /// Slices of a collective (SliceProgress) that a thread waits for, or else the end of the
  /// collective, which is at a position of a queue.
  struct AwaitedSlices {
    StreamSlot* carried = nullptr;  ///< nullptr: none, only the queue's position is awaited.
    uint64_t count = 0;             ///< Encoded by SliceCount.
    StreamSlot* queue = nullptr;
    uint64_t position = 0;

    bool Reached() const {
      return (carried != nullptr && carried->completed.load(std::memory_order_seq_cst) >= count) ||
             queue->completed.load(std::memory_order_seq_cst) >= position;
    }
  };
  /// Waits for these. A queue whose position is reached before any slice is told may be noticed a
  /// tenth of a second late. `on_tick` as in WaitForPosition.
  Status WaitForSlices(const AwaitedSlices& awaited, const std::function<Status()>& on_tick);
  /// Waits until `done`, which may become so when the daemon has news (SessionHeader::news).
  Status WaitForNews(const std::function<bool()>& done, const std::function<Status()>& on_tick);
  /// Returns how threads of the process wait: what the jobs of its ranks were granted.
  Looking looking() const { return LookingOf(segment_->header); }

  /// The steps of WaitForNews, for a thread that looks and sleeps by itself: it asks for news,
  /// looks for what it waits for, and sleeps, for at most `nanoseconds`, unless there were news
  /// meanwhile.
  uint32_t ExpectNews() { return harmonaize::ExpectNews(&segment_->header); }
  void SleepUntilNews(uint32_t word, uint64_t nanoseconds);
  /// Returns SessionHeader::knocks.
  uint32_t knocks() const { return segment_->header.knocks.load(std::memory_order_acquire); }
  /// Wakes the process's own threads that wait for news, so that they look anew.
  void TellNews() { harmonaize::TellNews(&segment_->header); }

  /// Waits until the member is no longer kForming; `on_tick` as in WaitForPosition.
  Status WaitWhileForming(uint32_t member, const std::function<Status()>& on_tick);

  /// Waits until MemberSlot::departures of the member is no longer `departures`.
  Status WaitForDeparture(uint32_t member, uint32_t departures);

  /// Wakes the daemon, if it sleeps, because the tenant has written a word in the segment.
  /// Requires: the word was written before, sequentially consistent.
  void Nudge();

  /// Counts a rank that tells the daemon of a wait on the inline path (InlineSlot::wait), which was
  /// written before, and rings; or one that waits no more.
  void CountInlineWait(bool waits);

  MemberSlot& member_slot(uint32_t member) { return segment_->members[member]; }
  StreamSlot& stream_slot(uint32_t stream) { return segment_->streams[stream]; }

  /// Returns kRemoteError, with the daemon's last word if it left one, once the daemon is gone.
  /// Checks the socket, by a system call.
  Status CheckAlive();
  /// Returns whether the daemon is known to be gone, without checking.
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// Returns a number that no other session of the process has, past ones included.
  uint64_t number() const { return number_; }
  /// Returns whether this process is a forked child of the one that connected.
  bool inherited() const { return fork_generation_ != forks_.load(std::memory_order_relaxed); }

 private:
  Session() = default;
  static Result<std::shared_ptr<Session>> Connect();
  static void SayThatProcessExits();
  static void ForgetAfterFork();
  Status Open(ControlSocket socket, const std::string& path);
  Result<ControlMessage> Exchange(const std::vector<std::byte>& request,
                                  std::span<const int> descriptors);
  Result<std::string> ReadDocument(const ControlMessage& first);
  Result<ControlMessage> AwaitAnswer(MessageType type);
  Status CheckPulse(const char* awaited);
  Status Silent(const char* awaited, uint64_t for_ns);
  Status Lost(const Status& why);
  /// Returns whether this process still has the descriptors. Programs close descriptors that they
  /// did not open, and the daemon takes a process that closes its socket for ended.
  bool HasDescriptors() const;
  /// Returns ok while the process has them; otherwise the session becomes lost.
  Status CheckDescriptors();
  Status Write(std::span<const OperationDescriptor> descriptors);
  Status AwaitRoom(uint32_t tail);
  uint64_t Window(const QueueShare& queue) const;
  uint64_t UnderWay(uint32_t stream) const;
  size_t TakeRoomForSome(std::span<const OperationDescriptor> descriptors,
                         std::span<const QueueShare> queues);
  void RingDoorbell();
  void RingInAnyCase();

  template <typename Reply>
  Result<Reply> DecodeReply(std::span<const std::byte> bytes) {
    HZ_ASSIGN_OR_RETURN(MessageHeader header, DecodeHeader(bytes));
    HZ_RETURN_IF_ERROR(CheckAnswer(header, bytes, spoken_));
    return DecodeBody<Reply>(header, bytes);
  }

  // Number of times that this process, or an ancestor, was forked since it first connected.
  static inline std::atomic<uint64_t> forks_{0};

  std::string path_;
  std::mutex control_mutex_;   // one request at a time
  std::mutex document_mutex_;  // one document at a time
  ControlSocket socket_;
  FileIdentity socket_identity_;
  std::mutex submit_mutex_;  // one producer at a time; guards posted_
  OperationRoom room_;
  std::vector<uint64_t> posted_;  // operations so far, by stream
  Mapping mapping_;
  SessionSegment* segment_ = nullptr;
  OwnDescriptor doorbell_;
  HelloReply hello_;
  VersionRange spoken_;   // the versions of the protocol that this process speaks
  uint16_t version_ = 0;  // the one that the session has
  uint64_t number_ = 0;
  uint64_t fork_generation_ = 0;
  std::atomic<bool> lost_{false};
  std::atomic<bool> silent_{false};  // it is lost because the daemon did not answer
  DaemonPulse pulse_;
  std::atomic<bool> closed_here_{false};  ///< The program has closed the descriptors.
};

}  // namespace harmonaize
