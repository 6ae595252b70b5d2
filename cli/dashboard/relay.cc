#include "cli/dashboard/relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <list>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include "cli/dashboard/relay_connection.h"

namespace harmonaize {
namespace {

namespace asio = boost::asio;

using asio::ip::tcp;
using boost::system::error_code;

/// Connections at a time: a page has about ten, and a few pages may be open.
constexpr size_t kMostConnections = 64;
/// The largest answer with a page, in bytes: a page has 100 KB at most, and some headers.
constexpr size_t kMostPageBytes = size_t{256} << 10;
/// Time for the daemon to send its page.
constexpr std::chrono::seconds kPageWithin{5};
/// Pause where descriptors have run out: waiting on the socket would return at once, for ever.
constexpr std::chrono::milliseconds kRestFor{100};

/// Reads until the other side closes.
Result<std::string> ReadAll(int fd) {
  const auto end = std::chrono::steady_clock::now() + kPageWithin;
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() <= kMostPageBytes) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd awaited{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&awaited, 1, static_cast<int>(left.count())) == 0) {
      return RemoteError("the daemon did not send its status page in time");
    }
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0) return text;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return ErrnoError(errno, "cannot read the daemon's status page");
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return RemoteError("the daemon's status page is longer than {} bytes", kMostPageBytes);
}

/// Returns the daemon's whole answer with the page, which says that the connection closes.
Result<std::string> GetPage(const RelayOptions& options) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor socket, options.connect());
  const std::string request = ForwardedRequest({.target = "/"});
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return ErrnoError(errno, "cannot ask the daemon for its status page");
  }
  HZ_ASSIGN_OR_RETURN(std::string page, ReadAll(socket.get()));
  if (!page.starts_with("HTTP/1.1 200 ")) {
    return RemoteError("the daemon has no status page: {}",
                       page.substr(0, std::min<size_t>(page.find('\r'), 64)));
  }
  return page;
}

}  // namespace

struct Relay::Parts {
  explicit Parts(RelayOptions its_options)
      : options(std::move(its_options)),
        acceptor(context),
        rest(context),
        signals(context),
        terminal(context) {}

  Status Listen();
  Status NewLink();
  void Accept();
  void Serve(tcp::socket browser);
  bool MakeRoom();
  void ReadTerminal();
  void AwaitSignals();

  RelayOptions options;
  asio::io_context context{1};
  RelayServices services;
  std::list<std::shared_ptr<RelayConnection>> connections;  // the oldest first
  tcp::acceptor acceptor;
  asio::steady_timer rest;
  asio::signal_set signals;
  asio::posix::stream_descriptor terminal;
  std::array<char, 256> typed{};
};

Status Relay::Parts::Listen() {
  error_code error;
  const tcp::endpoint place(asio::ip::address_v4::loopback(), options.port);
  acceptor.open(place.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(place, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) services.port = acceptor.local_endpoint(error).port();
  if (error == asio::error::address_in_use) {
    return Unavailable(
        "port {} of 127.0.0.1 is taken, by another dashboard perhaps; choose another one with "
        "--port, or leave --port out for any that is free",
        options.port);
  }
  if (error) return SystemError("cannot listen at 127.0.0.1:{}: {}", options.port, error.message());
  return Status::Ok();
}

Status Relay::Parts::NewLink() {
  HZ_ASSIGN_OR_RETURN(const std::string secret, services.secrets.NewLink());
  // Browsers keep what is behind the # to themselves.
  options.on_link(fmt::format("http://127.0.0.1:{}/#{}", services.port, secret));
  return Status::Ok();
}

void Relay::Parts::Accept() {
  acceptor.async_accept([this](error_code error, tcp::socket browser) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      Serve(std::move(browser));
      return Accept();
    }
    rest.expires_after(kRestFor);
    rest.async_wait([this](error_code canceled) {
      if (!canceled) Accept();
    });
  });
}

// Strangers go first, the oldest of them before others.
bool Relay::Parts::MakeRoom() {
  if (connections.size() < kMostConnections) return true;
  const auto stranger = std::find_if(connections.begin(), connections.end(),
                                     [](const auto& one) { return !one->is_known(); });
  if (stranger == connections.end()) return false;
  (*stranger)->Close();
  return true;
}

void Relay::Parts::Serve(tcp::socket browser) {
  if (!MakeRoom()) return;
  error_code ignored;
  browser.set_option(tcp::no_delay(true), ignored);
  auto connection = std::make_shared<RelayConnection>(
      std::move(browser), &services, [this](RelayConnection* ended) {
        connections.remove_if([ended](const auto& one) { return one.get() == ended; });
      });
  connections.push_back(connection);
  connection->Start();
}

void Relay::Parts::ReadTerminal() {
  terminal.async_read_some(asio::buffer(typed), [this](error_code error, size_t count) {
    if (error || count == 0) return;
    if (!NewLink().ok()) return;
    ReadTerminal();
  });
}

void Relay::Parts::AwaitSignals() {
  error_code ignored;
  signals.add(SIGINT, ignored);
  signals.add(SIGTERM, ignored);
  signals.async_wait([this](error_code error, int) {
    if (!error) context.stop();
  });
}

Relay::Relay(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Relay::~Relay() = default;

Result<std::unique_ptr<Relay>> Relay::Open(RelayOptions options) {
  auto parts = std::make_unique<Parts>(std::move(options));
  HZ_ASSIGN_OR_RETURN(parts->services.page, GetPage(parts->options));
  parts->services.connect = parts->options.connect;
  HZ_RETURN_IF_ERROR(parts->Listen());
  return std::unique_ptr<Relay>(new Relay(std::move(parts)));
}

uint16_t Relay::port() const {
  return parts_->services.port;
}

Status Relay::Run() {
  Parts& parts = *parts_;
  parts.AwaitSignals();
  parts.Accept();
  HZ_RETURN_IF_ERROR(parts.NewLink());
  if (parts.options.read_terminal) {
    // In the background a read fails instead of stopping this program.
    ::signal(SIGTTIN, SIG_IGN);
    error_code error;
    parts.terminal.assign(::dup(STDIN_FILENO), error);
    if (!error) parts.ReadTerminal();
  }
  parts.context.run();
  return Status::Ok();
}

void Relay::Stop() {
  parts_->context.stop();
}

}  // namespace harmonaize
