#include "src/client/session/session.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/base/clock.h"
#include "src/base/futex.h"
#include "src/base/log.h"
#include "src/base/looking.h"
#include "src/base/pause.h"
#include "src/base/wait_estimate.h"
#include "src/client/session/job_claim.h"
#include "src/ipc/daemon_search.h"
#include "src/ipc/process_state.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

/// A sleeper wakes this often to check whether the daemon still lives: well below the two seconds
/// in which a dead daemon must be noticed.
constexpr uint64_t kTickNanoseconds = 100'000'000;
constexpr int kTickMilliseconds = 100;

/// Most bytes of a document: more than the daemon makes for one job.
constexpr uint64_t kMostDocumentBytes = uint64_t{64} << 20;

std::mutex instance_mutex;
std::shared_ptr<Session> instance;

/// Returns the status of a session whose descriptors the program has closed; logged once a process,
/// however many sessions end so.
Status ClosedHere() {
  const Status status = RemoteError(
      "this process has closed the library's descriptors, as closefrom(3) does: the daemon takes a "
      "process that closes its connection for ended. Communicators have to be made anew");
  static std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kWarning, kLogInit, "{}", status.message());
  }
  return status;
}

std::string ProgramName() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

}  // namespace

// In a forked child the parent's session must not be used: its socket and ring are the parent's.
// The object is leaked on purpose, because threads that the child lacks may hold its locks.
void Session::ForgetAfterFork() {
  forks_.fetch_add(1, std::memory_order_relaxed);
  new (&instance_mutex) std::mutex();
  new (&instance) std::shared_ptr<Session>();
}

// A thread that connects meanwhile holds the lock; the process does not wait for it.
void Session::SayThatProcessExits() {
  const std::unique_lock lock(instance_mutex, std::try_to_lock);
  if (!lock.owns_lock() || instance == nullptr || instance->inherited()) return;
  instance->segment_->header.ending.store(kProcessExits, std::memory_order_relaxed);
}

Result<std::shared_ptr<Session>> Session::Get() {
  const std::lock_guard lock(instance_mutex);
  if (instance != nullptr && instance->CheckAlive().ok()) return instance;
  static const int kWatchesExit = std::atexit(&SayThatProcessExits);
  static_cast<void>(kWatchesExit);
  static const int kWatchesForks = pthread_atfork(nullptr, nullptr, &ForgetAfterFork);
  static_cast<void>(kWatchesForks);
  Result<std::shared_ptr<Session>> session = Connect();
  if (session.ok()) instance = *session;
  return session;
}

std::shared_ptr<Session> Session::Current() {
  const std::lock_guard lock(instance_mutex);
  return instance;
}

Session::~Session() {
  if (socket_identity_.IsOf(socket_.fd())) return;
  socket_.Abandon();
  // An eventfd under its number may belong to others, such as the next session's doorbell.
  doorbell_.Abandon();
}

Result<std::shared_ptr<Session>> Session::Connect() {
  HZ_ASSIGN_OR_RETURN(DaemonConnection daemon, ConnectToDaemon(ClientSocketPlaces()));
  std::shared_ptr<Session> session(new Session());
  HZ_RETURN_IF_ERROR(session->Open(std::move(daemon.socket), daemon.path));
  return session;
}

Status Session::Open(ControlSocket socket, const std::string& path) {
  static std::atomic<uint64_t> sessions{0};
  number_ = sessions.fetch_add(1, std::memory_order_relaxed) + 1;
  path_ = path;
  socket_ = std::move(socket);
  socket_identity_ = FileIdentity::Of(socket_.fd());
  fork_generation_ = forks_.load(std::memory_order_relaxed);

  HZ_ASSIGN_OR_RETURN(spoken_, ClientVersions());
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      CreateSharedMemory("harmonaize-session", sizeof(SessionSegment)));
  // A child has no use for the parent's ring, and must not write into it.
  madvise(memory.mapping.data(), memory.mapping.size(), MADV_DONTFORK);
  HelloRequest request;
  SetFieldText(request.program, ProgramName());
  ClaimJob(&request);
  const int descriptors[] = {memory.descriptor.get()};
  HZ_ASSIGN_OR_RETURN(ControlMessage message, Exchange(EncodeFirst(request, spoken_), descriptors));
  HZ_ASSIGN_OR_RETURN(HelloReply reply, DecodeReply<HelloReply>(message.bytes));
  HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(message.bytes));
  version_ = header.version;
  if (message.descriptors.size() != 1) {
    return InternalError("the daemon at {} sent {} descriptors, not 1", path,
                         message.descriptors.size());
  }
  hello_ = reply;
  mapping_ = std::move(memory.mapping);
  segment_ = reinterpret_cast<SessionSegment*>(mapping_.data());
  room_.SetUp(hello_.most_operations, &segment_->retired);
  posted_.assign(kStreamSlots, 0);
  doorbell_ = OwnDescriptor(std::move(message.descriptors[0]));
  Log(LogLevel::kInfo, kLogInit,
      "connected to harmonaized {} at {} (session {}, {} workers, version {} of the protocol)",
      FieldText(hello_.daemon_version), path, hello_.session, hello_.workers, version_);
  return Status::Ok();
}

Result<std::string> Session::ReadDocument(const ControlMessage& first) {
  HZ_ASSIGN_OR_RETURN(const DocumentReply begun, DecodeReply<DocumentReply>(first.bytes));
  if (begun.bytes > kMostDocumentBytes) {
    return RemoteError("the daemon's answer has {} bytes", begun.bytes);
  }
  const auto tail = [](const ControlMessage& message) {
    return std::string(reinterpret_cast<const char*>(message.bytes.data()) + sizeof(MessageHeader) +
                           sizeof(DocumentReply),
                       message.bytes.size() - sizeof(MessageHeader) - sizeof(DocumentReply));
  };
  std::string text = tail(first);
  while (text.size() < begun.bytes) {
    const DocumentRequest request{text.size()};
    HZ_ASSIGN_OR_RETURN(const ControlMessage next,
                        Exchange(Encode(MessageType::kDocument, request, {}, version_), {}));
    HZ_RETURN_IF_ERROR(DecodeReply<DocumentReply>(next.bytes).status());
    const std::string piece = tail(next);
    if (piece.empty()) break;
    text += piece;
  }
  if (text.size() != begun.bytes) {
    return RemoteError("the daemon's answer is not as long as it said");
  }
  return text;
}

Result<ControlMessage> Session::Exchange(const std::vector<std::byte>& request,
                                         std::span<const int> descriptors) {
  if (inherited()) {
    return InvalidUsage(
        "this process was forked from the one that made the communicator; make a new communicator "
        "in the child");
  }
  const std::lock_guard lock(control_mutex_);
  HZ_RETURN_IF_ERROR(CheckDescriptors());
  if (lost()) return Lost(Status::Ok());
  const Status sent = socket_.Send(request, descriptors);
  // A daemon that turned this process away has sent the reason before it hung up.
  const Result<MessageHeader> header = DecodeHeader(request);
  Result<ControlMessage> reply = sent.ok()
                                     ? AwaitAnswer(header.ok() ? header->type : MessageType::kHello)
                                     : socket_.Receive(0);
  if (!sent.ok() && !reply.ok()) return Lost(sent);
  if (lost()) return reply;
  if (!reply.ok()) return Lost(reply.status());
  HZ_RETURN_IF_ERROR(reply->descriptors_status);
  return reply;
}

Result<ControlMessage> Session::AwaitAnswer(MessageType type) {
  const uint64_t begun_ns = MonotonicNanoseconds();
  // The engine may work while the part of the daemon that answers requests is stuck.
  const uint64_t timeout_ns = DaemonTimeoutNanoseconds();
  const uint64_t deadline_ns = AnswerMayTakeLong(type) || timeout_ns > UINT64_MAX / 4
                                   ? UINT64_MAX
                                   : begun_ns + 2 * timeout_ns;
  while (true) {
    Result<ControlMessage> reply = socket_.Receive(kTickMilliseconds);
    if (reply.status().code() != Code::kInProgress) return reply;
    const uint64_t now_ns = MonotonicNanoseconds();
    if (segment_ != nullptr) HZ_RETURN_IF_ERROR(CheckPulse(RequestName(type)));
    const bool greeted_late = segment_ == nullptr && now_ns - begun_ns > timeout_ns;
    if (greeted_late || now_ns > deadline_ns) return Silent(RequestName(type), now_ns - begun_ns);
  }
}

Status Session::CheckPulse(const char* awaited) {
  switch (pulse_.Look(&segment_->header, MonotonicNanoseconds())) {
    case DaemonPulse::Finding::kAlive: return Status::Ok();
    case DaemonPulse::Finding::kSilent: return Silent(awaited, DaemonTimeoutNanoseconds());
    case DaemonPulse::Finding::kRing: {
      RingInAnyCase();
      break;
    }
    case DaemonPulse::Finding::kSlow: {
      const Result<PeerCredentials> daemon = socket_.Peer();
      Log(LogLevel::kWarning, kLogInit,
          "the daemon at {} ({}) gives no sign of life, while this process waits for {}", path_,
          DescribeProcess(daemon.ok() ? daemon->process : 0), awaited);
      break;
    }
  }
  return Status::Ok();
}

Status Session::Silent(const char* awaited, uint64_t for_ns) {
  silent_.store(true, std::memory_order_release);
  lost_.store(true, std::memory_order_release);
  const Result<PeerCredentials> daemon = socket_.Peer();
  const Status why = RemoteError(
      "the Harmonaize daemon at {} ({}) has not answered for {} s, while this process waited for "
      "{}; if it is alive and well, raise HARMONAIZE_DAEMON_TIMEOUT",
      path_, DescribeProcess(daemon.ok() ? daemon->process : 0), for_ns / 1'000'000'000, awaited);
  Log(LogLevel::kWarning, kLogInit, "{}", why.message());
  return why;
}

Status Session::Lost(const Status& why) {
  const bool first = !lost_.exchange(true, std::memory_order_acq_rel);
  if (closed_here_.load(std::memory_order_acquire)) return ClosedHere();
  std::string reason = segment_ != nullptr ? segment_->header.goodbye.Get() : std::string();
  if (silent_.load(std::memory_order_acquire)) reason = "it did not answer any more";
  if (reason.empty()) reason = "it died or was stopped";
  if (first) {
    Log(LogLevel::kWarning, kLogInit, "lost the daemon at {}: {} ({})", path_, reason,
        why.message());
  }
  return RemoteError("the connection to the Harmonaize daemon at {} is lost: {}", path_, reason);
}

bool Session::HasDescriptors() const {
  // All eventfds look the same, so the doorbell is trusted only together with the socket. There is
  // none before the daemon's greeting.
  return socket_identity_.IsOf(socket_.fd()) && (segment_ == nullptr || doorbell_.Intact());
}

Status Session::CheckDescriptors() {
  if (lost() || HasDescriptors()) return Status::Ok();
  closed_here_.store(true, std::memory_order_release);
  lost_.store(true, std::memory_order_release);
  return ClosedHere();
}

Status Session::CheckAlive() {
  HZ_RETURN_IF_ERROR(CheckDescriptors());
  if (lost() || socket_.PeerGone()) return Lost(RemoteError("it hung up"));
  return segment_ == nullptr ? Status::Ok() : CheckPulse("an operation");
}

Status Session::Submit(std::span<const OperationDescriptor> descriptors) {
  if (inherited()) {
    return InvalidUsage(
        "this process was forked from the one that made the communicator; make a new communicator "
        "in the child");
  }
  if (lost()) return Lost(Status::Ok());
  const std::lock_guard lock(submit_mutex_);
  return Write(descriptors);
}

// Requires: submit_mutex_ is held.
Status Session::Write(std::span<const OperationDescriptor> descriptors) {
  SubmissionRing& ring = segment_->ring;
  uint32_t tail = ring.tail.load(std::memory_order_relaxed);
  uint32_t unpublished = 0;
  for (const OperationDescriptor& descriptor : descriptors) {
    if (tail - ring.head.load(std::memory_order_acquire) >= kRingEntries) {
      ring.tail.store(tail, std::memory_order_seq_cst);
      unpublished = 0;
      HZ_RETURN_IF_ERROR(AwaitRoom(tail));
    }
    ring.entries[tail % kRingEntries] = descriptor;
    if ((descriptor.flags & kPipeMessage) == 0) ++posted_[descriptor.stream];
    ++tail;
    ++unpublished;
  }
  // Sequentially consistent, together with the load in RingDoorbell. The daemon announces that it
  // sleeps and then looks at the tail: either it sees this tail, or we see that it sleeps.
  if (unpublished > 0) ring.tail.store(tail, std::memory_order_seq_cst);
  RingDoorbell();
  return Status::Ok();
}

void Session::Nudge() {
  if (segment_->ring.consumer_waiting.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(submit_mutex_);
  RingDoorbell();
}

void Session::CountInlineWait(bool waits) {
  std::atomic<uint32_t>& count = segment_->header.inline_waits;
  if (!waits) {
    count.fetch_sub(1, std::memory_order_seq_cst);
    return;
  }
  count.fetch_add(1, std::memory_order_seq_cst);
  RingInAnyCase();
}

// Rings even if the daemon says that it is awake: it still looks at the bell now and then.
void Session::RingInAnyCase() {
  const uint64_t one = 1;
  // A write can only fail when the counter is full, and then the daemon has been rung already.
  if (HasDescriptors() && write(doorbell_.get(), &one, sizeof one) < 0) return;
}

void Session::RingDoorbell() {
  SubmissionRing& ring = segment_->ring;
  if (ring.consumer_waiting.load(std::memory_order_seq_cst) == 0) return;
  if (ring.consumer_waiting.exchange(0, std::memory_order_seq_cst) == 0) return;
  // submit_mutex_ is held, so no other thread counts.
  ring.doorbells.store(ring.doorbells.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  if (!HasDescriptors()) return;  // Waiting threads will find out.
  const uint64_t one = 1;
  // A write can only fail when the counter is full, and then the daemon has been rung already.
  if (write(doorbell_.get(), &one, sizeof one) < 0) return;
}

// ---------------------------------------------------------------------------------------------
// Waiting
//
// A wait has, for SpinThenSleep:
//     Done()      tells whether what is awaited has come;
//     Begin()     announces that this thread will sleep, End(word) takes that back;
//     Announce()  prepares each sleep; returns the value that the futex word then has;
//     word()      the futex word, which changes when there is news after Announce.
// Announce and Done are sequentially consistent, as are the daemon's news and its check for
// sleepers, so one side sees the other.

namespace {

/// Statistics of this thread's recent waits of all kinds.
WaitEstimate& RecentWaits() {
  constinit thread_local WaitEstimate estimate;
  return estimate;
}

/// Returns for how long to look where `pays_ns` would pay.
uint64_t LookNanoseconds(Looking looking, uint64_t pays_ns) {
  if (looking == Looking::kForLong) return std::max(pays_ns, kLongLookNanoseconds);
  return looking == Looking::kNever ? 0 : pays_ns;
}

template <typename Wait>
bool Look(const Wait& wait, uint64_t now_ns, uint64_t until_ns, bool crowded) {
  Pacer pacer(crowded);
  do {
    if (wait.Done()) return true;
    now_ns = pacer.Pause(now_ns);
  } while (now_ns < until_ns);
  return wait.Done();
}

/// `tick_ns`: time between calls of `on_tick`.
template <typename Wait>
Status Sleep(const Wait& wait, uint64_t tick_ns, const std::function<Status()>& on_tick) {
  Status status;
  wait.Begin();
  uint64_t next_tick = MonotonicNanoseconds() + tick_ns;
  uint32_t word = 0;
  while (true) {
    word = wait.Announce();
    if (wait.Done()) break;
    FutexWaitShared(wait.word(), word, tick_ns);
    const uint64_t now = MonotonicNanoseconds();
    if (now < next_tick) continue;
    next_tick = now + tick_ns;
    if (wait.Done()) break;
    status = on_tick();
    if (!status.ok()) break;
  }
  wait.End(word);
  return status;
}

/// Waits until Done: polls for as long as that pays, then sleeps.
template <typename Wait>
Status SpinThenSleep(const Wait& wait, const SessionHeader& header,
                     const std::function<Status()>& on_tick, uint64_t tick_ns = kTickNanoseconds) {
  if (wait.Done()) return Status::Ok();
  WaitEstimate& waits = RecentWaits();
  const uint64_t start = MonotonicNanoseconds();
  const uint64_t pays_ns =
      waits.BeginWait(header.wake_up_ns, header.sleepers.load(std::memory_order_relaxed));
  const uint64_t look_ns = LookNanoseconds(LookingOf(header), pays_ns);
  const bool crowded = header.crowded.load(std::memory_order_relaxed) != 0;
  const bool seen = look_ns > 0 && Look(wait, start, start + look_ns, crowded);
  const Status status = seen ? Status::Ok() : Sleep(wait, tick_ns, on_tick);
  waits.EndWait(MonotonicNanoseconds() - start, !seen);
  return status;
}

struct PositionWait {
  StreamSlot* slot;
  uint64_t position;

  bool Done() const { return slot->completed.load(std::memory_order_seq_cst) >= position; }
  void Begin() const { slot->waiters.fetch_add(1, std::memory_order_seq_cst); }
  void End(uint32_t word) const {
    if (LeaveMark(slot, word)) FutexWakeAllShared(&slot->awaited);
  }
  uint32_t Announce() const { return MarkAwaited(slot, position); }
  std::atomic<uint32_t>* word() const { return &slot->awaited; }
};

/// Its mark is on the slices if there are any, else on the queue.
struct SlicesWait {
  Session::AwaitedSlices awaited;

  StreamSlot* slot() const { return awaited.carried != nullptr ? awaited.carried : awaited.queue; }
  uint64_t count() const { return awaited.carried != nullptr ? awaited.count : awaited.position; }
  bool Done() const { return awaited.Reached(); }
  void Begin() const { slot()->waiters.fetch_add(1, std::memory_order_seq_cst); }
  void End(uint32_t word) const {
    if (LeaveMark(slot(), word)) FutexWakeAllShared(&slot()->awaited);
  }
  uint32_t Announce() const { return MarkAwaited(slot(), count()); }
  std::atomic<uint32_t>* word() const { return &slot()->awaited; }
};

struct NewsWait {
  SessionHeader* header;
  const std::function<bool()>& done;

  bool Done() const { return done(); }
  void Begin() const {}
  void End(uint32_t) const {}
  uint32_t Announce() const { return ExpectNews(header); }
  std::atomic<uint32_t>* word() const { return &header->news; }
};

struct FormationWait {
  MemberSlot* slot;

  bool Done() const {
    return slot->state.load(std::memory_order_seq_cst) !=
           static_cast<uint32_t>(MemberState::kForming);
  }
  void Begin() const { slot->waiters.fetch_add(1, std::memory_order_seq_cst); }
  void End(uint32_t) const { slot->waiters.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t Announce() const { return slot->state.load(std::memory_order_seq_cst); }
  std::atomic<uint32_t>* word() const { return &slot->state; }
};

struct DepartureWait {
  MemberSlot* slot;
  uint32_t before;

  bool Done() const { return slot->departures.load(std::memory_order_seq_cst) != before; }
  void Begin() const { slot->waiters.fetch_add(1, std::memory_order_seq_cst); }
  void End(uint32_t) const { slot->waiters.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t Announce() const { return before; }
  std::atomic<uint32_t>* word() const { return &slot->departures; }
};

/// Waits for room behind `tail` in the ring: half of it, so that a producer that is faster than the
/// daemon sleeps once for hundreds of descriptors.
struct RoomWait {
  SubmissionRing* ring;
  uint32_t tail;

  bool Done() const {
    return tail - ring->head.load(std::memory_order_seq_cst) <= kRingEntries / 2;
  }
  void Begin() const {}
  void End(uint32_t) const { ring->producer_waiting.store(0, std::memory_order_relaxed); }
  uint32_t Announce() const {
    ring->producer_waiting.store(1, std::memory_order_seq_cst);
    return ring->head.load(std::memory_order_seq_cst);
  }
  std::atomic<uint32_t>* word() const { return &ring->head; }
};

}  // namespace

Status Session::AwaitRoom(uint32_t tail) {
  RingDoorbell();
  return SpinThenSleep(RoomWait{&segment_->ring, tail}, segment_->header,
                       [&] { return CheckAlive(); });
}

Status Session::WaitForPosition(uint32_t stream, uint64_t position,
                                const std::function<Status()>& on_tick) {
  return WaitForPosition(&stream_slot(stream), position, on_tick);
}

Status Session::WaitForPosition(StreamSlot* slot, uint64_t position,
                                const std::function<Status()>& on_tick) {
  return SpinThenSleep(PositionWait{slot, position}, segment_->header, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

bool Session::WaitBriefly(uint32_t stream, uint64_t position, uint64_t nanoseconds) {
  const auto give_up = [] { return Status(Code::kInProgress, ""); };
  return SpinThenSleep(PositionWait{&stream_slot(stream), position}, segment_->header, give_up,
                       nanoseconds)
      .ok();
}

Status Session::WaitForSlices(const AwaitedSlices& awaited,
                              const std::function<Status()>& on_tick) {
  return SpinThenSleep(SlicesWait{awaited}, segment_->header, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

Status Session::WaitForNews(const std::function<bool()>& done,
                            const std::function<Status()>& on_tick) {
  return SpinThenSleep(NewsWait{&segment_->header, done}, segment_->header, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

void Session::SleepUntilNews(uint32_t word, uint64_t nanoseconds) {
  FutexWaitShared(&segment_->header.news, word, nanoseconds);
}

Status Session::WaitWhileForming(uint32_t member, const std::function<Status()>& on_tick) {
  return SpinThenSleep(FormationWait{&member_slot(member)}, segment_->header, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

Status Session::WaitForDeparture(uint32_t member, uint32_t departures) {
  return SpinThenSleep(DepartureWait{&member_slot(member), departures}, segment_->header,
                       [&] { return CheckAlive(); });
}

}  // namespace harmonaize
