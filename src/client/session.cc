#include "src/client/session.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/base/clock.h"
#include "src/base/futex.h"
#include "src/base/log.h"
#include "src/base/pause.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {
namespace {

/// How long a sleeper sleeps before it looks whether the daemon still lives. Well below the two
/// seconds in which a dead daemon must be noticed.
constexpr uint64_t kTickNanoseconds = 100'000'000;

/// How long a waiter looks before it sleeps: about what one wake-up costs. More would steal the
/// core from the daemon, or from another rank, that the waiter waits for.
constexpr uint64_t kSpinNanoseconds = 2'000;

std::mutex instance_mutex;
std::shared_ptr<Session> instance;

std::string ProgramName() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

}  // namespace

// In a forked child the parent's session must not be used: its socket and ring are the parent's.
// The object is leaked there on purpose, for its locks may be held by threads that the child lacks.
void Session::ForgetAfterFork() {
  forks_.fetch_add(1, std::memory_order_relaxed);
  new (&instance_mutex) std::mutex();
  new (&instance) std::shared_ptr<Session>();
}

Result<std::shared_ptr<Session>> Session::Get() {
  const std::lock_guard lock(instance_mutex);
  if (instance != nullptr && instance->CheckAlive().ok()) return instance;
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

Session::~Session() = default;

Result<std::shared_ptr<Session>> Session::Connect() {
  std::string tried;
  for (const std::string& path : ClientSocketPaths()) {
    Result<ControlSocket> socket = ControlSocket::Connect(path);
    if (socket.ok()) {
      std::shared_ptr<Session> session(new Session());
      HZ_RETURN_IF_ERROR(session->Open(std::move(*socket), path));
      return session;
    }
    if (!tried.empty()) tried += "; ";
    tried += socket.status().message();
  }
  return Unavailable("{}", tried);
}

Status Session::Open(ControlSocket socket, const std::string& path) {
  static std::atomic<uint64_t> sessions{0};
  number_ = sessions.fetch_add(1, std::memory_order_relaxed) + 1;
  path_ = path;
  socket_ = std::move(socket);
  fork_generation_ = forks_.load(std::memory_order_relaxed);

  Result<PeerCredentials> daemon = socket_.Peer();
  if (!daemon.ok()) return daemon.status();
  // Where the Yama security module lets only ancestors look into a process, the daemon may after
  // this; elsewhere the call is refused and nothing is lost.
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(daemon->process), 0, 0, 0);

  static const uint64_t kProbe = 0x6861726d6f6e6169;
  HelloRequest request;
  request.probe_address = reinterpret_cast<uint64_t>(&kProbe);
  request.probe_value = kProbe;
  SetFieldText(request.program, ProgramName());
  Result<ControlMessage> message = Exchange(Encode(HelloRequest::kType, request), {});
  if (!message.ok()) return message.status();
  Result<HelloReply> reply = DecodeReply<HelloReply>(message->bytes);
  if (!reply.ok()) return reply.status();
  if (message->descriptors.size() != 2) {
    return InternalError("the daemon at {} sent {} descriptors, not 2", path,
                         message->descriptors.size());
  }
  hello_ = *reply;
  Result<Mapping> mapping = MapForeign(message->descriptors[0].get(), sizeof(SessionSegment));
  if (!mapping.ok()) return mapping.status();
  mapping_ = std::move(*mapping);
  segment_ = reinterpret_cast<SessionSegment*>(mapping_.data());
  doorbell_ = std::move(message->descriptors[1]);
  // A child has no use for the parent's ring, and must not write into it.
  madvise(mapping_.data(), mapping_.size(), MADV_DONTFORK);
  Log(LogLevel::kInfo, kLogInit,
      "connected to harmonaized {} at {} (session {}, {} workers, private memory {})",
      FieldText(hello_.daemon_version), path, hello_.session, hello_.workers,
      reaches_private_memory() ? "reachable" : "not reachable: heap buffers are staged");
  return Status::Ok();
}

Result<ControlMessage> Session::Exchange(const std::vector<std::byte>& request,
                                         std::span<const int> descriptors) {
  if (inherited()) {
    return InvalidUsage(
        "this process was forked from the one that made the communicator; make a new communicator "
        "in the child");
  }
  const std::lock_guard lock(control_mutex_);
  if (lost()) return Lost(Status::Ok());
  const Status sent = socket_.Send(request, descriptors);
  // A daemon that turned this process away has said why before it hung up.
  Result<ControlMessage> reply = socket_.Receive(sent.ok() ? -1 : 0);
  if (!sent.ok() && !reply.ok()) return Lost(sent);
  if (!reply.ok()) return Lost(reply.status());
  return reply;
}

Status Session::Lost(const Status& why) {
  const bool first = !lost_.exchange(true, std::memory_order_acq_rel);
  std::string reason = segment_ != nullptr ? segment_->header.goodbye.Get() : std::string();
  if (reason.empty()) reason = "it died or was stopped";
  if (first) {
    Log(LogLevel::kWarning, kLogInit, "lost the daemon at {}: {} ({})", path_, reason,
        why.message());
  }
  return RemoteError("the connection to the Harmonaize daemon at {} is lost: {}", path_, reason);
}

Status Session::CheckAlive() {
  if (lost() || socket_.PeerGone()) return Lost(RemoteError("it hung up"));
  return Status::Ok();
}

Status Session::AwaitRoom(uint32_t tail) {
  const SubmissionRing& ring = segment_->ring;
  for (int tries = 0; tail - ring.head.load(std::memory_order_acquire) >= kRingEntries; ++tries) {
    if (tries % 1000 == 999) HZ_RETURN_IF_ERROR(CheckAlive());
    // The daemon empties the ring without waiting for any rank, so this is short.
    RingDoorbell();
    sched_yield();
  }
  return Status::Ok();
}

Status Session::Submit(std::span<const OperationDescriptor> descriptors) {
  if (inherited()) {
    return InvalidUsage(
        "this process was forked from the one that made the communicator; make a new communicator "
        "in the child");
  }
  if (lost()) return Lost(Status::Ok());
  const std::lock_guard lock(submit_mutex_);
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
    ++tail;
    ++unpublished;
  }
  // Sequentially consistent, together with the load in RingDoorbell: either the daemon, which says
  // that it sleeps and then looks at the tail, sees this tail, or we see that it sleeps.
  if (unpublished > 0) ring.tail.store(tail, std::memory_order_seq_cst);
  RingDoorbell();
  return Status::Ok();
}

void Session::RingDoorbell() {
  SubmissionRing& ring = segment_->ring;
  if (ring.consumer_waiting.load(std::memory_order_seq_cst) == 0) return;
  if (ring.consumer_waiting.exchange(0, std::memory_order_seq_cst) == 0) return;
  const uint64_t one = 1;
  // It can only fail when the counter is full, and then the daemon has been rung already.
  if (write(doorbell_.get(), &one, sizeof one) < 0) return;
}

namespace {

/// Waits until `done` holds: looks for a while, then sleeps on `futex` between looks. `futex_value`
/// is read before `done`, so that no change is missed.
template <typename Done>
Status SpinThenSleep(std::atomic<uint32_t>* futex, std::atomic<uint32_t>* waiters, const Done& done,
                     const std::function<Status()>& on_tick) {
  const uint64_t spin_until = MonotonicNanoseconds() + kSpinNanoseconds;
  do {
    if (done()) return Status::Ok();
    PauseBriefly();
  } while (MonotonicNanoseconds() < spin_until);

  Status status;
  // Sequentially consistent against the daemon's store of the word and load of `waiters`: one of us
  // sees the other.
  waiters->fetch_add(1, std::memory_order_seq_cst);
  uint64_t next_tick = MonotonicNanoseconds() + kTickNanoseconds;
  while (true) {
    const uint32_t seen = futex->load(std::memory_order_seq_cst);
    if (done()) break;
    FutexWaitShared(futex, seen, kTickNanoseconds);
    const uint64_t now = MonotonicNanoseconds();
    if (now < next_tick) continue;
    next_tick = now + kTickNanoseconds;
    if (done()) break;
    status = on_tick();
    if (!status.ok()) break;
  }
  waiters->fetch_sub(1, std::memory_order_relaxed);
  return status;
}

}  // namespace

Status Session::WaitForPosition(uint32_t stream, uint64_t position,
                                const std::function<Status()>& on_tick) {
  StreamSlot& slot = stream_slot(stream);
  const auto done = [&] { return slot.completed.load(std::memory_order_acquire) >= position; };
  return SpinThenSleep(CompletionFutex(&slot), &slot.waiters, done, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

Status Session::WaitWhileForming(uint32_t member, const std::function<Status()>& on_tick) {
  MemberSlot& slot = member_slot(member);
  const auto done = [&] {
    return slot.state.load(std::memory_order_acquire) !=
           static_cast<uint32_t>(MemberState::kForming);
  };
  return SpinThenSleep(&slot.state, &slot.waiters, done, [&]() -> Status {
    HZ_RETURN_IF_ERROR(CheckAlive());
    return on_tick();
  });
}

}  // namespace harmonaize
