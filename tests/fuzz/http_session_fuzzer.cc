// All that a caller can send to the HTTP server, in whatever pieces, while it reads or does not.
// The server is a real one, with its threads. Whatever comes, each answer is one of HTTP/1.1, and
// the server serves the next caller.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/http/http_router.h"
#include "daemon/http/http_server.h"
#include "src/base/file_descriptor.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace daemon;

/// The longest that the server may take to answer a proper request, in milliseconds: a busy machine
/// takes tens.
constexpr int kAnswerWithinMs = 9'000;

/// Stands in inputs where the sender makes a break, and is not sent.
constexpr char kBreak = '\x1e';

HttpRoute EchoOf(const char* method, const char* pattern) {
  return {method, pattern, HttpAudience::kTenants,
          [](const std::shared_ptr<HttpExchange>& exchange, const HttpParameters& parameters) {
            const HttpRequest& request = exchange->request();
            for (const auto& [name, value] : parameters)
              RequireClean(value, "a parameter is clean");
            for (const auto& [name, value] : request.headers) {
              RequireClean(value, "a header is clean");
            }
            Require(request.body.size() <= HttpLimits().body_bytes, "a body has its limit");
            HttpResponse response;
            response.body = request.body;
            exchange->Respond(std::move(response));
          }};
}

HttpServer& Server() {
  static const std::unique_ptr<HttpServer> server = [] {
    HttpRoute stream{"GET", "/events", HttpAudience::kTenants,
                     [](const std::shared_ptr<HttpExchange>& exchange, const HttpParameters&) {
                       const auto opened = exchange->RespondWithStream(nullptr);
                       opened->Write("data: a\n\n");
                       if (!exchange->request().query.contains("open")) opened->End();
                     }};
    HttpRoute lost{"GET", "/lost", HttpAudience::kTenants,
                   [](const std::shared_ptr<HttpExchange>&, const HttpParameters&) {}};
    auto router =
        HttpRouter::Create({EchoOf("GET", "/"), EchoOf("POST", "/echo/{name}"),
                            EchoOf("PUT", "/echo/{name}"), std::move(stream), std::move(lost)});
    RequireOk(router.status(), "the routes are proper");
    HttpOptions options;
    options.limits.caller_requests = {1e9, 1e9};
    auto made = HttpServer::Create(std::move(options), *router);
    RequireOk(made.status(), "there is a server");
    return std::move(*made);
  }();
  return *server;
}

FileDescriptor Connect() {
  int ends[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there is a socket");
  AdoptedConnection connection{FileDescriptor(ends[0]), {}, {}};
  RequireOk(Server().Adopt(&connection), "the server takes a connection");
  return FileDescriptor(ends[1]);
}

/// Reads some bytes, which have to come soon; "" at the end of the connection. The fuzzer's own
/// signals interrupt calls.
std::string ReadSome(int fd) {
  pollfd readable{fd, POLLIN, 0};
  int ready = 0;
  while ((ready = poll(&readable, 1, kAnswerWithinMs)) < 0 && errno == EINTR) continue;
  Require(ready == 1, "the server answers, or closes");
  char part[4096];
  ssize_t got = 0;
  while ((got = read(fd, part, sizeof part)) < 0 && errno == EINTR) continue;
  return got <= 0 ? "" : std::string(part, static_cast<size_t>(got));
}

void Send(int fd, std::string_view text) {
  static_cast<void>(send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void Run(Input input) {
  const FileDescriptor caller = Connect();
  const bool reads = input.TakeUpTo(3) != 0;
  for (std::string_view rest = TextOf(input.TakeRest()); !rest.empty();) {
    const size_t bytes = std::min(rest.find(kBreak), rest.size());
    Send(caller.get(), rest.substr(0, bytes));
    // A break lets the server see what came before it by itself.
    if (bytes < rest.size()) poll(nullptr, 0, 1);
    rest.remove_prefix(std::min(bytes + 1, rest.size()));
  }
  shutdown(caller.get(), SHUT_WR);
  // A stream that stays open is no end that one could wait for.
  if (reads) {
    const std::string answer = ReadSome(caller.get());
    Require(answer.size() < 9 || answer.rfind("HTTP/1.1 ", 0) == 0, "an answer is one of HTTP/1.1");
  }

  const FileDescriptor next = Connect();
  Send(next.get(),
       "POST /echo/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
       "Content-Type: application/json\r\nContent-Length: 5\r\n\r\n[1,2]");
  shutdown(next.get(), SHUT_WR);
  std::string answer;
  for (std::string part; !(part = ReadSome(next.get())).empty();) answer += part;
  Require(answer.rfind("HTTP/1.1 200 OK\r\n", 0) == 0, "the next caller is served");
  Require(answer.size() > 5 && answer.substr(answer.size() - 5) == "[1,2]",
          "with what it asked for");
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
