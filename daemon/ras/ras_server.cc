#include "daemon/ras/ras_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include <chrono>
#include <system_error>
#include <utility>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "daemon/access/allowance.h"
#include "daemon/ras/ras_report.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"
#include "src/base/thread_clock.h"

namespace harmonaize::daemon {
namespace {

using transport::NetworkAddress;

/// Most connections that are accepted before those that are there are served.
constexpr int kAcceptsAtOnce = 8;

/// Time, in milliseconds, until the next try where descriptors have run out.
constexpr std::chrono::milliseconds kRestFor(100);

/// Age, in nanoseconds, up to which a report serves its reader's further questions: so a user has
/// the engine make two in a second at most, whatever it asks.
constexpr uint64_t kFreshNs = 500'000'000;

/// Bytes of the daemon's memory that a connection is charged for: its lines, events that wait, and
/// what the kernel keeps (twice kUnreadBytes).
constexpr int64_t kRasConnectionBytes = 256 << 10;

/// Bytes that the kernel keeps for a client that does not read. The memory counts as the daemon's,
/// so it is less than the kernel would choose.
constexpr int kUnreadBytes = 64 << 10;

/// Returns the address to listen at; an empty one where it is none.
NetworkAddress AddressOf(const RasConfig& config) {
  const Result<NetworkAddress> parsed = NetworkAddress::Parse(config.listen, RasConfig::kPort);
  return parsed.ok() ? *parsed : NetworkAddress();
}

}  // namespace

Result<std::unique_ptr<RasServer>> RasServer::Start(
    const Config& config, std::shared_ptr<EngineGate> gate, EventBus* bus,
    std::shared_ptr<Accounts> accounts, std::shared_ptr<transport::ListeningSockets> listening,
    EventLoop* loop, const RasLimits& limits) {
  HZ_ASSIGN_OR_RETURN(RasCallers callers, RasCallers::Open(config.tenants));
  std::unique_ptr<RasServer> server(new RasServer(config, std::move(gate), bus, std::move(accounts),
                                                  std::move(listening), loop, std::move(callers),
                                                  limits));
  try {
    server->thread_ = std::thread([self = server.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    return SystemError("cannot start a thread: {}", error.what());
  }
  HZ_RETURN_IF_ERROR(
      server->port_.Begin([self = server.get()](bool /*again*/) { return self->Listen(); },
                          LogLevel::kWarning, "NCCL's RAS clients are not answered"));
  return server;
}

RasServer::RasServer(const Config& config, std::shared_ptr<EngineGate> gate, EventBus* bus,
                     std::shared_ptr<Accounts> accounts,
                     std::shared_ptr<transport::ListeningSockets> listening, EventLoop* loop,
                     RasCallers callers, const RasLimits& limits)
    : address_(AddressOf(config.ras)),
      accounts_(std::move(accounts)),
      listening_(std::move(listening)),
      reports_(std::move(gate), RasReport, kFreshNs),
      port_(loop),
      work_(services_->context.get_executor()),
      callers_(std::move(callers)),
      listener_(services_->context),
      rest_(services_->context) {
  services_->reports = &reports_;
  services_->bus = bus;
  services_->limits = limits;
}

RasServer::~RasServer() {
  Close();
}

void RasServer::Close() {
  if (!thread_.joinable()) return;
  boost::asio::post(services_->context, [this] { CloseAll(); });
  thread_.join();
}

Status RasServer::Listen() {
  if (!address_.IsLoopback()) return InvalidArgument("ras.listen: it is no loopback address");
  Result<FileDescriptor> socket = listening_->Listen(address_);
  if (!socket.ok())
    return Status(socket.status().code(), "ras.listen: " + socket.status().message());
  const NetworkAddress bound = transport::BoundAddress(socket->get());
  boost::system::error_code error;
  listener_.assign(socket->get(), error);
  if (error) return SystemError("cannot listen at {}: {}", bound.ToString(), error.message());
  socket->Release();
  boost::asio::post(services_->context, [this] { Await(); });
  Log(LogLevel::kInfo, kLogInit, "NCCL's RAS clients are answered at {}", bound.ToString());
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// The thread

void RasServer::Run() {
  pthread_setname_np(pthread_self(), "hz-ras");
  Allowance allowance;
  for (bool running = true; running;) {
    allowance.RestIfSpent();
    const int64_t begun_ns = ThreadNanoseconds();
    // An exception that a handler lets go ends this turn, and the others run all the same.
    GuardedAndLogged("a turn of RAS", [&] { running = services_->context.run_one() > 0; });
    allowance.Spend(ThreadNanoseconds() - begun_ns);
  }
}

void RasServer::CloseAll() {
  boost::system::error_code ignored;
  listener_.close(ignored);
  rest_.cancel();
  while (!connections_.empty()) std::shared_ptr(connections_.begin()->second)->Close();
  work_.reset();
}

void RasServer::Await() {
  listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](const boost::system::error_code& error) {
                         if (!error && listener_.is_open()) AcceptSome();
                       });
}

void RasServer::AcceptSome() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (AcceptOne()) continue;
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) break;
    // Waiting on the socket would return at once, for ever.
    rest_.expires_after(kRestFor);
    rest_.async_wait([this](const boost::system::error_code& error) {
      if (!error && listener_.is_open()) Await();
    });
    return;
  }
  Await();
}

bool RasServer::AcceptOne() {
  sockaddr_storage remote{};
  socklen_t length = sizeof remote;
  FileDescriptor socket(accept4(listener_.native_handle(), reinterpret_cast<sockaddr*>(&remote),
                                &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return false;
  const Status admitted = Caught([&] {
    return Admit(&socket, NetworkAddress::From(reinterpret_cast<const sockaddr*>(&remote)));
  });
  if (admitted.ok() || !socket.valid()) return true;
  // Best effort: there is room for a line in a new socket.
  const std::string line = "ERROR: " + admitted.message() + "\n";
  static_cast<void>(send(socket.get(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  return true;
}

Status RasServer::Admit(FileDescriptor* socket, const NetworkAddress& peer) {
  HZ_ASSIGN_OR_RETURN(HttpCaller caller,
                      callers_.Identify(peer, transport::BoundAddress(socket->get())));
  const LogFor log_for(caller.tenant);
  const uint32_t user = caller.tenant.number;
  const auto held = of_user_.find(user);
  if (held != of_user_.end() && held->second >= kMostOfUser) {
    return InvalidUsage("this user has {} connections here, which is as many as it may",
                        kMostOfUser);
  }
  if (connections_.size() >= kMostConnections) {
    return InvalidUsage("there are {} connections here, which is as many as there may be",
                        kMostConnections);
  }
  const std::shared_ptr<Account> account = accounts_->Of(user, caller.tenant.name);
  struct Paid {
    Holding place;
    Holding memory;
  };
  auto paid = std::make_shared<Paid>();
  HZ_ASSIGN_OR_RETURN(paid->place, account->Take(Resource::kConnections, 1));
  HZ_ASSIGN_OR_RETURN(paid->memory, account->Take(Resource::kMemory, kRasConnectionBytes));
  const int on = 1;
  setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &kUnreadBytes, sizeof kUnreadBytes);
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<ByteStream> stream,
                      ByteStream::Make(&services_->context, socket, nullptr));
  const uint64_t number = next_number_++;
  auto connection = std::make_shared<RasConnection>(services_, std::move(stream), std::move(caller),
                                                    account, [this, number, user, paid] {
                                                      paid->place.Reset();
                                                      paid->memory.Reset();
                                                      if (--of_user_[user] <= 0)
                                                        of_user_.erase(user);
                                                      connections_.erase(number);
                                                    });
  ++of_user_[user];
  connections_[number] = connection;
  connection->Start();
  return Status::Ok();
}

}  // namespace harmonaize::daemon
