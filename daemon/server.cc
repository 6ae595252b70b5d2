#include "daemon/server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemon/calibration.h"
#include "daemon/guarded.h"
#include "daemon/requests.h"
#include "daemon/version.h"
#include "src/base/log.h"
#include "src/base/wait_estimate.h"
#include "src/memory/memory_node.h"

namespace harmonaize::daemon {
namespace {

/// Holds the socket's place: two daemons that start at the same moment cannot both have it. The
/// kernel lets go of it however the daemon ends.
Result<FileDescriptor> LockSocket(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failure;
  if (!folder.empty()) std::filesystem::create_directories(folder, failure);
  if (failure) {
    return SystemError("cannot make the folder {}: {}", folder.string(), failure.message());
  }
  FileDescriptor fd(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoError(errno, fmt::format("cannot open {}", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return InvalidUsage(
        "a daemon is already running at {}; stop it first, or give this one another socket with "
        "--socket",
        socket_path);
  }
  return fd;
}

/// The node on which the memory lies, by a few of its pages; -1 for several, and on hosts with one.
int NodeOf(const Mapping& mapping) {
  static const bool kSeveralNodes = MemoryNodeCount() > 1;
  if (!kSeveralNodes) return -1;
  const int first = NodeOfPage(mapping.data());
  for (const size_t quarter : {1, 2, 3, 4}) {
    if (NodeOfPage(mapping.data() + (mapping.size() - 1) / 4 * quarter) != first) return -1;
  }
  return first;
}

/// The memory that a tenant registers.
Result<RegionMemory> MapRegion(const MessageHeader& header, ControlMessage& message) {
  const auto request = DecodeBody<RegisterRegionRequest>(header, message.bytes);
  if (!request.ok()) return request.status();
  if (message.descriptors.size() != 1) {
    return InvalidArgument("a region comes with one descriptor");
  }
  Result<Mapping> mapping =
      MapForeign(message.descriptors.front().get(), request->bytes, HugePageFiles::kAccept);
  if (!mapping.ok()) return mapping.status();
  madvise(mapping->data(), mapping->size(), MADV_HUGEPAGE);
  FaultGuard guard(mapping->data(), mapping->size());
  const int node = NodeOf(*mapping);
  return RegionMemory{std::move(message.descriptors.front()), std::move(*mapping), std::move(guard),
                      node};
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(const Config& config) {
  std::unique_ptr<Server> server(new Server(config));
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.status();
  server->loop_ = std::move(*loop);

  Result<FileDescriptor> lock = LockSocket(config.socket_path);
  if (!lock.ok()) return lock.status();
  server->lock_ = std::move(*lock);
  Result<FileDescriptor> listener =
      ListenAt(config.socket_path, static_cast<mode_t>(config.socket_mode));
  if (!listener.ok()) return listener.status();
  server->listener_ = std::move(*listener);
  server->spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));

  const Fingerprint host = FingerprintOfHost();
  Result<Calibration> calibration = LoadOrMeasure(config.state_path, host, [&](const GoOn& go_on) {
    return MeasureHost(host.last_level_bytes, go_on);
  });
  if (!calibration.ok()) return calibration.status();

  Server* self = server.get();
  Result<std::unique_ptr<Engine>> engine =
      Engine::Create(config, std::move(*calibration),
                     [self](std::function<void()> chore) { self->loop_->Post(std::move(chore)); });
  if (!engine.ok()) return engine.status();
  server->engine_ = std::move(*engine);
  HZ_RETURN_IF_ERROR(self->loop_->Watch(self->listener_.get(), [self] { self->Accept(); }));
  return server;
}

Server::~Server() {
  // Of a server that never came to own its socket nothing must be taken away.
  if (listener_.valid()) {
    unlink(config_.socket_path.c_str());
    unlink((config_.socket_path + ".lock").c_str());
  }
}

void Server::Run(const std::function<void()>& on_listening) {
  engine_->Start();
  on_listening();
  while (!stopping_) {
    loop_->Wait(-1);
    loop_->RunPosted();
  }
  loop_->Unwatch(listener_.get());
  engine_->Stop("it was stopped by its operator");
}

void Server::Stop() {
  loop_->Post([this] { stopping_ = true; });
}

void Server::Accept() {
  FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EMFILE || errno == ENFILE) TurnAway();
    return;
  }
  ControlSocket socket(std::move(fd));
  const Result<PeerCredentials> peer = socket.Peer();
  if (!peer.ok()) return;
  FileDescriptor process = socket.PeerProcess(peer->process);
  auto connection = std::make_shared<Connection>(std::move(socket), *peer, std::move(process));
  guests_[connection->fd()] = {connection, 0};
  bool watched = false;
  GuardedAndLogged("a new connection", [&] { watched = WatchGuest(connection).ok(); });
  if (!watched) Drop(connection, "could not be watched");
}

Status Server::WatchGuest(const std::shared_ptr<Connection>& connection) {
  HZ_RETURN_IF_ERROR(
      loop_->Watch(connection->fd(), [this, connection] { OnReadable(connection); }));
  if (connection->process_fd() < 0) return Status::Ok();
  // A process may end while a forked child still holds its socket open.
  return loop_->Watch(connection->process_fd(), [this, connection] {
    Drop(connection, fmt::format("(process {}) died", connection->peer().process));
  });
}

void Server::TurnAway() {
  const Status why = SystemError(
      "the daemon is out of file descriptors and turns this process away: its operator can raise "
      "LimitNOFILE (systemd) or `ulimit -n`");
  Log(LogLevel::kError, kLogInit, "{}", why.message());
  spare_.Reset();
  FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) {
    // The answer would not reach a tenant whose hello lay unread when the socket was closed.
    char hello[kMaxControlMessageBytes];
    static_cast<void>(recv(fd.get(), hello, sizeof hello, 0));
    ControlSocket socket(std::move(fd));
    static_cast<void>(socket.Send(EncodeFailure(MessageType::kHello, why), {}));
  }
  spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// The engine has seen nothing of a message at which this throws, but the tenant would wait for its
// answer, so it is told and sent away.
void Server::OnReadable(const std::shared_ptr<Connection>& connection) {
  const bool dealt_with = Guarded(
      [&] { Read(connection); },
      [&](const Status& exception) {
        LogException("a message of a tenant", exception);
        connection->ReplyFailure(MessageType::kHello, exception);
        Drop(connection,
             fmt::format("(process {}) was cut off by the provider", connection->peer().process));
      });
  // Readable once more, then.
  if (!dealt_with) connection->Cut();
}

void Server::Read(const std::shared_ptr<Connection>& connection) {
  Result<ControlMessage> message = connection->Receive();
  if (!message.ok()) {
    if (message.status().code() == Code::kInProgress) return;
    Drop(connection,
         fmt::format("(process {}) died or closed its connection", connection->peer().process));
    return;
  }
  const uint32_t session = guests_.at(connection->fd()).session;
  if (session != 0) return Forward(connection, session, std::move(*message));
  const Status status = Caught([&] { return Greet(connection, *message); });
  if (!status.ok()) {
    connection->ReplyFailure(MessageType::kHello, status);
    Drop(connection, "was not let in");
  }
}

Status Server::Greet(const std::shared_ptr<Connection>& connection, const ControlMessage& message) {
  const Result<MessageHeader> header = DecodeHeader(message.bytes);
  if (!header.ok()) return header.status();
  if (header->type == MessageType::kStatus) {
    PostAnswer(connection, header->type,
               [connection](Engine& engine) { AnswerStatus(engine, *connection); });
    return Status::Ok();
  }
  if (header->type == MessageType::kExplain) {
    const Result<ExplainRequest> request = DecodeBody<ExplainRequest>(*header, message.bytes);
    if (!request.ok()) return request.status();
    PostAnswer(connection, header->type, [connection, request = *request](Engine& engine) {
      AnswerExplain(engine, *connection, request);
    });
    return Status::Ok();
  }
  if (header->type == MessageType::kProbe) {
    const Result<ProbeRequest> request = DecodeBody<ProbeRequest>(*header, message.bytes);
    if (!request.ok()) return request.status();
    const auto* end = reinterpret_cast<const char*>(message.bytes.data() + message.bytes.size());
    PostAnswer(
        connection, header->type,
        [connection, request = *request, addresses = std::string(end - header->tail_bytes, end)](
            Engine& engine) { AnswerProbe(engine, connection, request, addresses); });
    return Status::Ok();
  }
  if (header->type != MessageType::kHello) return InvalidUsage("a session starts with a hello");
  const Result<HelloRequest> hello = DecodeBody<HelloRequest>(*header, message.bytes);
  if (!hello.ok()) return hello.status();

  Result<SharedMemory> segment = CreateSharedMemory("harmonaize-session", sizeof(SessionSegment));
  if (!segment.ok()) return segment.status();
  auto* layout = reinterpret_cast<SessionSegment*>(segment->mapping.data());
  layout->header.magic = kSegmentMagic;
  layout->header.version = kProtocolVersion;
  layout->header.sleepers.store(kSleepersOnOneHost, std::memory_order_relaxed);
  FileDescriptor doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell.valid()) return ErrnoError(errno, "cannot make a doorbell");

  HelloReply reply;
  reply.session = next_session_++;
  reply.workers = static_cast<uint32_t>(config_.workers);
  SetFieldText(reply.daemon_version, kVersion);
  guests_.at(connection->fd()).session = reply.session;

  auto memory = std::make_shared<SharedMemory>(std::move(*segment));
  auto bell = std::make_shared<FileDescriptor>(std::move(doorbell));
  PostAnswer(
      connection, header->type,
      [connection, memory, bell, reply, program = CleanFieldText(hello->program)](Engine& engine) {
        // Here, because the calibration belongs to the engine's thread.
        reinterpret_cast<SessionSegment*>(memory->mapping.data())->header.wake_up_ns =
            static_cast<uint32_t>(engine.calibration().costs.wake_up_ns);
        // The session keeps the bell.
        const int descriptors[] = {memory->descriptor.get(), bell->get()};
        const Status added = engine.AddSession(std::make_unique<Session>(
            reply.session, connection, program, engine.TenantOf(connection->peer().user),
            std::move(memory->mapping), std::move(*bell)));
        if (!added.ok()) {
          connection->ReplyFailure(MessageType::kHello, added);
          connection->Cut();
          return;
        }
        connection->Reply(MessageType::kHello, reply, descriptors);
      });
  return Status::Ok();
}

void Server::PostAnswer(const std::shared_ptr<Connection>& connection, MessageType type,
                        std::function<void(Engine&)> answer) {
  engine_->Post([engine = engine_.get(), connection, type, answer = std::move(answer)] {
    AnswerGuarded(*connection, type, [&] { answer(*engine); });
  });
}

void Server::Forward(const std::shared_ptr<Connection>& connection, uint32_t session,
                     ControlMessage message) {
  auto shared = std::make_shared<ControlMessage>(std::move(message));
  auto region = std::make_shared<RegionMemory>();
  const Result<MessageHeader> header = DecodeHeader(shared->bytes);
  if (header.ok() && header->type == MessageType::kRegisterRegion) {
    // Mapped here, on the thread that may take its time.
    Result<RegionMemory> mapped = MapRegion(*header, *shared);
    if (!mapped.ok()) return connection->ReplyFailure(header->type, mapped.status());
    *region = std::move(*mapped);
  }
  // At once: the engine may be behind, and descriptors are what a daemon runs out of first.
  shared->descriptors.clear();
  engine_->Post([engine = engine_.get(), connection, session, shared, region] {
    AnswerRequest(*engine, session, connection, *shared, std::move(*region));
  });
}

void Server::Drop(const std::shared_ptr<Connection>& connection, const std::string& why) {
  const auto found = guests_.find(connection->fd());
  if (found == guests_.end() || found->second.connection != connection) return;
  const uint32_t session = found->second.session;
  // First what may throw: while it is watched, a connection that has ended is ready again.
  if (session != 0) {
    engine_->Post([engine = engine_.get(), session, why] { engine->LoseSession(session, why); });
  } else {
    engine_->Post([engine = engine_.get(), connection] { ForgetAsker(*engine, *connection); });
  }
  loop_->Unwatch(connection->fd());
  if (connection->process_fd() >= 0) loop_->Unwatch(connection->process_fd());
  guests_.erase(found);
}

}  // namespace harmonaize::daemon
