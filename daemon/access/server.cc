#include "daemon/access/server.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "daemon/access/reception.h"
#include "daemon/http/http_server.h"
#include "daemon/runtime/close_elsewhere.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/connection.h"
#include "src/base/log.h"
#include "src/ipc/http_socket.h"
#include "src/ipc/socket_folder.h"

namespace harmonaize::daemon {
namespace {

/// Locks the socket's place, so that two daemons that start at the same moment cannot both have it.
/// The kernel lets go of the lock however the daemon ends.
Result<FileDescriptor> LockSocket(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  HZ_RETURN_IF_ERROR(MakeSocketFolder(socket_path));
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

/// Most connections that are accepted before the loop looks at anything else, a signal to stop
/// among it.
constexpr int kAcceptsPerTurn = 64;

/// Most tenants that are served at a time, each by a thread of its own.
constexpr size_t kMostReceptions = 4096;

/// Longest time, in milliseconds, that an ending daemon waits for the threads that deal with
/// tenants. A tenant can make its own thread stand still; such a thread is left behind.
constexpr std::chrono::milliseconds kReceptionsCloseWithin(2000);

/// Lets the members of a group use the operators' socket, where the host has such a group and the
/// daemon may give the socket to it.
void LetGroupIn(const std::string& path, const std::string& group) {
  if (group.empty()) return;
  std::vector<char> buffer(64 * 1024);
  struct group entry {};
  struct group* found = nullptr;
  if (getgrnam_r(group.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0) return;
  if (found == nullptr) return;
  if (chown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid) == 0 &&
      chmod(path.c_str(), 0660) == 0) {
    return;
  }
  Log(LogLevel::kWarning, kLogInit,
      "the group {} cannot be given the operators' socket {}: is the daemon's user a member?",
      group, path);
}

}  // namespace

Server::Server(const Config& config)
    : config_(config),
      nccl_settings_(std::make_shared<NcclSettingsInForce>(config.nccl)),
      identifier_(config.tenants) {}

Result<std::unique_ptr<Server>> Server::Open(const Config& config) {
  std::unique_ptr<Server> server(new Server(config));
  HZ_ASSIGN_OR_RETURN(server->loop_, EventLoop::Create());

  HZ_ASSIGN_OR_RETURN(server->lock_, LockSocket(config.socket_path));
  HZ_RETURN_IF_ERROR(server->OpenDoors());
  server->spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return server;
}

Status Server::Serve(std::shared_ptr<EngineGate> gate, std::shared_ptr<Accounts> accounts) {
  gate_ = std::move(gate);
  accounts_ = std::move(accounts);
  for (const std::unique_ptr<Door>& door : doors_) {
    HZ_RETURN_IF_ERROR(
        loop_->Watch(door->listener.get(), [this, opened = door.get()] { Accept(*opened); }));
  }
  return Status::Ok();
}

// Each door has one beside it for HTTP, with the same rights.
Status Server::OpenDoors() {
  const auto open = [this](Door door, mode_t mode) {
    Door http = Door{.path = HttpSocketPath(door.path),
                     .tenant = door.tenant,
                     .for_operators = door.for_operators,
                     .http = true,
                     .listener = {}};
    HZ_RETURN_IF_ERROR(OpenDoor(std::move(door), mode));
    return OpenDoor(std::move(http), mode);
  };
  HZ_RETURN_IF_ERROR(open({.path = config_.socket_path, .tenant = "", .listener = {}},
                          static_cast<mode_t>(config_.socket_mode)));
  const std::string operators = OperatorSocketOf(config_);
  HZ_RETURN_IF_ERROR(
      open({.path = operators, .tenant = "", .for_operators = true, .listener = {}}, 0600));
  LetGroupIn(operators, config_.operator_group);
  LetGroupIn(HttpSocketPath(operators), config_.operator_group);
  if (config_.tenants.identity != "socket") return Status::Ok();
  for (const TenantsConfig::Socket& socket : config_.tenants.sockets) {
    // The provider decides who reaches the socket, by the containers that it is mounted into.
    HZ_RETURN_IF_ERROR(open({.path = socket.path, .tenant = socket.name, .listener = {}}, 0666));
  }
  return Status::Ok();
}

Status Server::OpenDoor(Door door, mode_t mode) {
  HZ_ASSIGN_OR_RETURN(door.listener,
                      ListenAt(door.path, mode, door.http ? SOCK_STREAM : SOCK_SEQPACKET));
  doors_.push_back(std::make_unique<Door>(std::move(door)));
  return Status::Ok();
}

Server::~Server() {
  RemoveSockets();
}

void Server::RemoveSockets() {
  // A server that never came to own its sockets must remove nothing.
  for (const std::unique_ptr<Door>& door : doors_) unlink(door->path.c_str());
  if (!doors_.empty()) unlink((config_.socket_path + ".lock").c_str());
}

void Server::Run() {
  while (!stopping_) {
    loop_->Wait(refused_.TimeoutMs());
    loop_->RunPosted();
    refused_.CloseWaiting();
  }
  for (const std::unique_ptr<Door>& door : doors_) loop_->Unwatch(door->listener.get());
}

void Server::Close(bool http_closed, const std::function<int()>& end) {
  CloseDoors();
  if (CloseReceptions() && http_closed) return;
  Log(LogLevel::kWarning, kLogInit,
      "a tenant keeps a thread of the daemon's, which ends without it");
  RemoveSockets();
  static_cast<void>(FlushLog());
  std::_Exit(end());
}

// Connections that nobody has accepted close with their listener, and what was sent there with
// them.
void Server::CloseDoors() {
  std::vector<FileDescriptor> listeners;
  for (const std::unique_ptr<Door>& door : doors_) listeners.push_back(std::move(door->listener));
  const Status closed = CloseElsewhere(&listeners);
  if (closed.ok()) return;
  Log(LogLevel::kError, kLogInit, "{}", closed.message());
  // The end of the process closes them.
  for (FileDescriptor& listener : listeners) listener.Release();
}

void Server::Stop() {
  loop_->Post([this] { stopping_ = true; });
}

bool Server::CloseReceptions() {
  for (const auto& [key, reception] : receptions_) reception->Close();
  const auto deadline = std::chrono::steady_clock::now() + kReceptionsCloseWithin;
  while (!receptions_.empty() && std::chrono::steady_clock::now() < deadline) {
    ForgetClosed();
    if (!receptions_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return receptions_.empty();
}

void Server::ForgetClosed() {
  std::erase_if(receptions_, [](const auto& entry) { return entry.second->closed(); });
}

// ---------------------------------------------------------------------------------------------
// Connections

// Until their tenants are known, all newcomers count as one in the log.
void Server::Accept(const Door& door) {
  static const TenantIdentity kNewcomers{
      .number = UINT32_MAX, .across_hosts = UINT32_MAX, .user = 0, .name = "at the front door"};
  const LogFor log_for(kNewcomers);
  for (int i = 0; i < kAcceptsPerTurn && AcceptOne(door); ++i) continue;
  // Receptions of tenants that have gone still hold descriptors.
  ForgetClosed();
}

bool Server::AcceptOne(const Door& door) {
  FileDescriptor fd(accept4(door.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EMFILE || errno == ENFILE) TurnAway(door);
    return false;
  }
  ControlSocket socket(std::move(fd));
  const Status admitted = Caught([&] { return Admit(&socket, door); });
  // A peer that has ended meanwhile hears nothing.
  if (!admitted.ok() && socket.valid()) Refuse(std::move(socket), admitted, door);
  return true;
}

Result<Server::Newcomer> Server::Identify(const ControlSocket& socket, const Door& door) {
  Newcomer newcomer;
  HZ_ASSIGN_OR_RETURN(newcomer.credentials, socket.Peer());
  newcomer.process = socket.PeerProcess(newcomer.credentials.process);
  HZ_ASSIGN_OR_RETURN(newcomer.tenant, identifier_.Identify(newcomer.credentials,
                                                            newcomer.process.get(), door.tenant));
  newcomer.account = accounts_->Of(newcomer.tenant.number, newcomer.tenant.name);
  HZ_ASSIGN_OR_RETURN(newcomer.place, newcomer.account->Take(Resource::kConnections, 1));
  HZ_ASSIGN_OR_RETURN(newcomer.memory, newcomer.account->Take(Resource::kMemory, kConnectionBytes));
  return newcomer;
}

Status Server::Admit(ControlSocket* socket, const Door& door) {
  HZ_ASSIGN_OR_RETURN(Newcomer newcomer, Identify(*socket, door));
  return door.http ? AdmitHttp(socket, std::move(newcomer), door)
                   : AdmitControl(socket, std::move(newcomer), door);
}

Status Server::AdmitControl(ControlSocket* socket, Newcomer newcomer, const Door& door) {
  auto connection = std::make_unique<Connection>(
      std::move(*socket),
      Connection::Peer{newcomer.credentials, std::move(newcomer.tenant), door.for_operators},
      std::move(newcomer.process), std::move(newcomer.account), std::move(newcomer.place),
      std::move(newcomer.memory));
  const Status handed_over = Caught([&] { return HandOver(&connection); });
  if (connection != nullptr) *socket = connection->TakeSocket();
  return handed_over;
}

Status Server::AdmitHttp(ControlSocket* socket, Newcomer newcomer, const Door& door) {
  if (adopt_http_ == nullptr) return Unavailable("this daemon serves no HTTP");
  const std::string name = newcomer.tenant.name;
  AdoptedConnection connection{
      .socket = socket->TakeDescriptor(),
      .caller = {.tenant = std::move(newcomer.tenant),
                 .scope = door.for_operators ? HttpScope::kOperator : HttpScope::kTenant,
                 .name = name},
      .place = std::move(newcomer.place),
      .memory = std::move(newcomer.memory)};
  const Status adopted = Caught([&] { return adopt_http_(&connection); });
  if (connection.socket.valid()) *socket = ControlSocket(std::move(connection.socket));
  return adopted;
}

void Server::Refuse(ControlSocket socket, const Status& why, const Door& door) {
  door.http ? refused_.RefuseHttp(std::move(socket), why) : refused_.Refuse(std::move(socket), why);
}

Status Server::HandOver(std::unique_ptr<Connection>* connection) {
  const ReceptionKey key{(*connection)->tenant().number, (*connection)->is_operator()};
  const auto known = receptions_.find(key);
  if (known != receptions_.end() && known->second->Receive(connection)) return Status::Ok();
  // The tenant's reception before, if any, has closed.
  ForgetClosed();
  if (receptions_.size() >= kMostReceptions) {
    return InvalidUsage("this host's daemon serves {} tenants, which is as many as it may",
                        kMostReceptions);
  }
  HZ_ASSIGN_OR_RETURN(
      std::shared_ptr<Reception> opened,
      Reception::Open(gate_, (*connection)->tenant(),
                      {.workers = config_.workers,
                       .versions = config_.session_versions.value_or(kSessionVersions),
                       .nccl_settings = nccl_settings_}));
  receptions_[key] = opened;
  opened->Receive(connection);
  return Status::Ok();
}

// A connection for which there is no descriptor would wake the loop for ever if it stayed in the
// queue.
void Server::TurnAway(const Door& door) {
  const Status why = SystemError(
      "the daemon is out of file descriptors and turns this process away: its operator can raise "
      "LimitNOFILE (systemd) or `ulimit -n`");
  Log(LogLevel::kError, kLogInit, "{}", why.message());
  spare_.Reset();
  FileDescriptor fd(accept4(door.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) Refuse(ControlSocket(std::move(fd)), why, door);
  // The refused connections hold descriptors, which are needed now.
  refused_.CloseAll();
  spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace harmonaize::daemon
